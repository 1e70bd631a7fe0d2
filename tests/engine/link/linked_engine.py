"""An engine in a worker process, for tests that kill it."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

from service.engine.client.generator import GeneratorClient
from service.engine.link.engine_spec import EngineSpec
from service.engine.link.process_link import ProcessLink
from service.engine.link.restarts import Restarts
from tests.engine.byte_tokenizer import ByteTokenizer
from tests.engine.fakes import config_of
from tests.engine.scripted import Script
from tests.engine.started_engine import QUICK

NEVER_ENDING: dict[str, Any] = {"max_tokens": None, "ignore_eos": True}


def is_alive(pid: int) -> bool:
    """Return whether a process of that id exists and has not ended."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


def linked(folder: Path, restarts: Restarts = QUICK, **sizes: Any) -> tuple[GeneratorClient, ProcessLink, Script]:
    """Return an engine in a process, with its link and its script."""
    script = Script(folder)
    link = ProcessLink(
        EngineSpec("tests.engine.scripted:generator", {"folder": folder, "texts": (), "ends": True, "sizes": sizes}),
        restarts=restarts,
    )
    link.launch()
    return GeneratorClient(link, config_of(**sizes), vocab_size=ByteTokenizer.vocab_size), link, script


def kill(link: ProcessLink) -> None:
    assert link.pid is not None
    os.kill(link.pid, signal.SIGKILL)
