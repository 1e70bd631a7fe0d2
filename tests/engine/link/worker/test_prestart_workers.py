"""Worker processes that start before the model to load is known."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from service.engine.client.generator import GeneratorClient
from service.engine.link.engine_spec import EngineSpec
from service.engine.link.process_link import ProcessLink
from service.engine.link.worker.worker_process import WorkerDied, next_worker, prestart_workers
from tests.engine.byte_tokenizer import ByteTokenizer
from tests.engine.fakes import config_of, request
from tests.engine.paged_runner import sums
from tests.engine.scripted import Script
from tests.engine.started_engine import generate, tokens


def link_to(folder: Path) -> ProcessLink:
    Script(folder)
    arguments: dict[str, Any] = {"folder": folder, "texts": (), "ends": True, "sizes": {}}
    return ProcessLink(EngineSpec("tests.engine.scripted:generator", arguments))


def imports_ahead(link: ProcessLink) -> bool:
    """Return whether the link's process was started with a module to import before its launch."""
    return Path(f"/proc/{link.pid}/cmdline").read_bytes().split(b"\0")[-2] != b""


@pytest.mark.slow
async def test_the_next_launch_uses_a_prestarted_process(tmp_path: Path) -> None:
    """The next launch uses the prestarted process for any model, and the launch after it starts a new one."""
    prestart_workers(1)
    link, other = link_to(tmp_path / "first"), link_to(tmp_path / "second")
    link.launch()
    other.launch()
    assert [imports_ahead(each) for each in (link, other)] == [True, False]
    for each in (link, other):
        async with GeneratorClient(each, config_of(), vocab_size=ByteTokenizer.vocab_size) as engine:
            assert tokens(await generate(engine, request("hello"))) == sums(b"hello", 8, 0)


def test_a_prestarted_process_that_has_died_is_reported() -> None:
    prestart_workers(1)
    dead = next_worker()
    dead.process.kill()
    dead.process.wait()
    dead.launch(EngineSpec("tests.engine.scripted:generator", {}), heartbeat_interval_s=1)
    with pytest.raises(WorkerDied, match="closed its connection"):
        dead.until_ready()
