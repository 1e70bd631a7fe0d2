"""Tests of the names by which users install the product."""

from __future__ import annotations

import re
import subprocess
import tomllib
from pathlib import Path

from process import distribution

ROOT = Path(__file__).resolve().parents[2]


def test_every_instruction_to_install_names_this_projects_distributions() -> None:
    """No text or message asks for PyPI's `sluice`, which is another project."""
    own = {
        tomllib.loads((ROOT / folder / "pyproject.toml").read_text())["project"]["name"]
        for folder in ("", "native", "clients/python")
    }
    assert distribution.NAME in own
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True)
    found = set()
    for path in (ROOT / name for name in listed.stdout.split("\0") if name and not name.startswith("generated/")):
        if path.suffix in {".md", ".py", ".toml", ".sh", ".yaml", ".ts"} and path.is_file():
            for command in re.findall(r"pip install (.*)", path.read_text()):
                found |= set(re.findall(r"(?<![\w/.-])sluice[\w-]*(?=[\['\"\s]|$)", command))
    assert found
    assert found <= own
