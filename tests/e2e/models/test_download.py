"""A model of the hub, from a slow local hub to an answer."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import httpx

from service.settings.bundled_models import DEMO_FOLDER
from tests.e2e.stack import Stack
from tests.engine.folders.hub_server import serving_hub
from tests.waiting import GUARD_S


def test_downloaded_model_is_served_and_its_progress_is_printed(tmp_path: Path) -> None:
    """The run's output shows the progress of the download."""
    folder, home = tmp_path / "model", tmp_path / "home"
    shutil.copytree(DEMO_FOLDER, folder)
    (folder / "filler.json").write_bytes(b" " * 41_000_000)  # not used by the model
    with serving_hub("org/slow", folder, pause_s=0.06) as url:
        stack = Stack("org/slow", environment={"HF_ENDPOINT": url, "HF_HOME": str(home), "HF_HUB_OFFLINE": "0"})
        try:
            stack.wait_for("sluice is ready.")
            lines = re.findall(r"downloading org/slow: ([0-9.]+) of ([0-9.]+) MB, [0-9.]+ MB/s", stack.output)
            assert any(0 < float(num) < float(total) <= 51 for num, total in lines), lines
            body = {"model": "slow", "messages": [{"role": "user", "content": "Hello!"}]}
            assert httpx.post(f"{stack.url}/v1/chat/completions", json=body, timeout=GUARD_S).status_code == 200
        finally:
            assert stack.stop() == 0


def test_failed_download_is_reported_in_one_line(tmp_path: Path) -> None:
    """The run ends with the reason if the hub is unreachable or does not have the model."""
    with serving_hub("org/slow", DEMO_FOLDER) as url:
        for endpoint, reason in (("http://127.0.0.1:1", "http://127.0.0.1:1 can't be reached"), (url, "404")):
            folder = str(tmp_path / reason[:3])
            stack = Stack("org/other", environment={"HF_ENDPOINT": endpoint, "HF_HOME": folder, "HF_HUB_OFFLINE": "0"})
            assert stack.wait() == 1
            lines = [line for line in stack.output.splitlines() if "org/other is not a folder" in line]
            assert len(lines) == 2, "the service's log, and the run's last line"
            assert lines[-1].startswith("run: service exited with code 1: ")
            assert all(reason in line for line in lines)
            assert "Traceback" not in stack.output
