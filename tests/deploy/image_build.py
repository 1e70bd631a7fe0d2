"""Run the stages of the Dockerfile without a container engine: its COPY and RUN steps, in local folders."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parents[2]
FILE = ROOT / "deploy" / "docker" / "Dockerfile"
NOBODY = 65532
EXCLUDED = shutil.ignore_patterns("__pycache__", "build", "*.so")  # as .dockerignore has it


@dataclass
class Stage:
    """A FROM and its instructions, as pairs of keyword and arguments."""

    parent: str
    instructions: list[tuple[str, str]] = field(default_factory=list)

    def all_of(self, word: str) -> list[str]:
        """Return the arguments of all occurrences of one instruction."""
        return [rest for found, rest in self.instructions if found == word]


def stages() -> dict[str, Stage]:
    """Return the stages by name, in order."""
    text = re.sub(r"\\\n\s*", "", FILE.read_text())
    found: dict[str, Stage] = {}
    name = ""
    for line in text.splitlines():
        word, _, rest = line.partition(" ")
        if word == "FROM":
            parent, _, name = rest.partition(" AS ")
            found[name] = Stage(parent)
        elif name and word.isupper():
            found[name].instructions.append((word, rest))
    return found


def lineage(name: str) -> Iterator[Stage]:
    """Yield the stages that a stage is based on, the first one first, then the stage."""
    stage = stages()[name]
    if stage.parent in stages():
        yield from lineage(stage.parent)
    yield stage


def copied(name: str) -> list[tuple[list[str], str]]:
    """Return what a stage copies from the project's folder, as pairs of paths and destination."""
    pairs = []
    for stage in lineage(name):
        for rest in stage.all_of("COPY"):
            arguments = [each for each in rest.split() if not each.startswith("--")]
            if "--from=" not in rest:
                pairs.append((arguments[:-1], arguments[-1]))
    return pairs


def build(name: str, folder: Path) -> Path:
    """Run a build stage's COPY and RUN with `folder` in place of /opt/sluice. Return the environment."""
    source, environment = folder / "source", folder / "sluice"
    for paths, to in copied(name):
        for path in paths:
            target = source / to / (Path(path).name if to.endswith("/") and not path.endswith("/") else "")
            target.parent.mkdir(parents=True, exist_ok=True)
            if (ROOT / path).is_dir():
                shutil.copytree(ROOT / path, target, ignore=EXCLUDED, dirs_exist_ok=True)
            else:
                shutil.copy(ROOT / path, source / path if to == "./" else target)
    (run,) = [each for each in stages()[name].all_of("RUN") if "/opt/sluice" in each]
    ours = run.replace("/opt/sluice", str(environment))
    subprocess.run(["bash", "-o", "pipefail", "-c", ours], cwd=source, check=True, env={**os.environ, "PYTHONPATH": ""})
    return environment


def started(environment: Path, arguments: Sequence[str], writable: Path, **variables: str) -> subprocess.Popen[bytes]:
    """Start a process as in a container: read-only root, one writable folder, no capabilities, the user nobody.

    If other users may not read Python itself, the current user is kept.
    """
    writable.mkdir()
    mounts = f"mount --make-rprivate / && mount -o remount,bind,ro / && mount -t tmpfs -o mode=1777 none {writable}"
    program = (environment / "bin" / "python").resolve()
    is_open = all(folder.stat().st_mode & 0o001 for folder in program.parents)
    nobody = [f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"] if is_open else []
    own = {"PATH": f"{environment}/bin:/usr/bin:/bin", "HOME": str(writable), "TMPDIR": str(writable)}
    command = ["setpriv", *nobody, "--bounding-set=-all", "--inh-caps=-all", "--no-new-privs", "--", *arguments]
    return subprocess.Popen(
        ["unshare", "-m", "sh", "-c", f'{mounts} && cd {writable} && exec "$@"', "sh", *command],
        env={**own, "PYTHONDONTWRITEBYTECODE": "1", **variables},
    )
