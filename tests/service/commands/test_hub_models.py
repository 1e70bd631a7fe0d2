"""`sluice pull`, `list` and `rm` with a local hub."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from service.settings.bundled_models import DEMO_FOLDER
from tests.e2e.stack import ROOT
from tests.engine.folders.hub_server import serving_hub
from tests.waiting import GUARD_S

pytestmark = pytest.mark.slow


def sluice(*words: str, home: Path, url: str = "http://127.0.0.1:1") -> subprocess.CompletedProcess[str]:
    """Run a command with its own cache of a hub."""
    environment = {**os.environ, "HF_ENDPOINT": url, "HF_HOME": str(home), "HF_HUB_OFFLINE": "0"}
    return subprocess.run(
        [sys.executable, "-m", "service.commands.hub_models", *words],
        cwd=ROOT, env=environment, capture_output=True, text=True, timeout=GUARD_S, check=False,
    )  # fmt: skip


def test_a_pulled_model_is_listed_until_it_is_removed(tmp_path: Path) -> None:
    """The second pull, and the list, need no hub."""
    with serving_hub("org/small", DEMO_FOLDER) as url:
        done = sluice("pull", "org/small", home=tmp_path, url=url)
        assert done.returncode == 0, done.stderr
        assert not done.stderr, "requests to the hub are not reported"
        assert (Path(done.stdout.strip()) / "config.json").read_bytes() == (DEMO_FOLDER / "config.json").read_bytes()
    (listed,) = json.loads(sluice("list", "--json", home=tmp_path).stdout)
    assert listed["name"] == "org/small"
    assert listed["bytes"] > 1_000_000
    assert sluice("list", home=tmp_path).stdout.splitlines()[1].startswith("org/small  ")
    removed = sluice("rm", "org/small", home=tmp_path)
    assert removed.stdout == f"org/small is removed: {listed['bytes'] / 1e6:.1f} MB\n"
    assert json.loads(sluice("list", "--json", home=tmp_path).stdout) == []


def test_a_long_pull_reports_its_progress(tmp_path: Path) -> None:
    """It has lines for bytes only."""
    folder = tmp_path / "model"
    shutil.copytree(DEMO_FOLDER, folder)
    (folder / "filler.json").write_bytes(b" " * 41_000_000)  # sent slowly: the first line follows after two seconds
    with serving_hub("org/slow", folder, pause_s=0.06) as url:
        done = sluice("pull", "org/slow", home=tmp_path / "home", url=url)
    assert done.returncode == 0, done.stderr
    assert {line.partition(":")[0] for line in done.stderr.splitlines()} == {"downloading org/slow"}


@pytest.mark.parametrize("files", [("model.Q4_K_M.gguf",), ("model.Q4_K_M.gguf", "config.json")])
def test_a_model_of_gguf_files_names_the_command_for_one_of_them(tmp_path: Path, files: tuple[str, ...]) -> None:
    (folder := tmp_path / "model").mkdir()
    for name in files:
        (folder / name).write_text("{}")
    with serving_hub("org/x-GGUF", folder) as url:
        done = sluice("pull", "org/x-GGUF", home=tmp_path / "home", url=url)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.splitlines()[-1] == (
        "sluice: org/x-GGUF has no config.json with weights in safetensors; if it has GGUF files, download one with "
        "`hf download org/x-GGUF FILE.gguf`, and serve the file that this prints"
    )


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["pull", "org/none"], "org/none is not a folder and not in the local hub cache; http://127.0.0.1:1 can't be"),
        (["pull", "docs"], "docs: docs has no config.json; it is no model's folder"),
        (["rm", "org/none"], "org/none is not in the hub's cache; `sluice list` shows what is"),
        (["rm", "docs"], "docs is a folder or file of yours; only models of the hub are removed"),
    ],
)
def test_errors_are_one_line(tmp_path: Path, words: list[str], text: str) -> None:
    done = sluice(*words, home=tmp_path)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.splitlines()[-1].startswith(f"sluice: {text}")
    assert "Traceback" not in done.stderr
