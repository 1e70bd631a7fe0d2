"""Pins: the exact version of each package, and the hashes of its files.

    pins.py install PYTHON EXTRAS [OPTION...]   install what these extras (a,b) of pyproject.toml need for that Python
    pins.py uv ARGUMENT...                      run uv with the package sources of pip's configuration pins.py lock
    write constraints.txt, tests/clients/requirements/ and npm's pins

uv resolves and installs. It decides which packages a machine needs, since that differs: PyPI's torch for Linux needs
CUDA's libraries, a build for CPUs doesn't. constraints.txt holds the versions, and the hashes without which nothing is
installed. uv itself is installed by pip, by its pin, into the environment of the Python that runs this.
"""

from __future__ import annotations

import ast
import hashlib
import json
import os
import re
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlparse

ROOT = Path(__file__).resolve().parent.parent
LOCK = ROOT / "constraints.txt"
NPM_LOCKS = tuple(ROOT / folder / "package-lock.json" for folder in ("tools", "examples", "tests/clients/agents"))
HEADER = """\
# The version of everything that is installed, tried together, with its files' hashes. Made by `make pins`, which keeps
# the chosen versions, for pyproject.toml; every installation uses them (tools/install.sh).
"""
PINNED = re.compile(r"^(?P<name>[\w.-]+)==(?P<version>[^\s;]+)(?P<rest>(?:.*\\\n)*.*)$", re.MULTILINE)
_PROCESSORS = {"aarch64": "arm64", "armv7": "arm"}  # architectures whose name in a package differs from npm's
_UV_VARIABLES = {
    "index-url": "UV_DEFAULT_INDEX",
    "extra-index-url": "UV_INDEX",
    "find-links": "UV_FIND_LINKS",
    "cert": "SSL_CERT_FILE",
}
_LIKE_PIP = {"UV_INDEX_STRATEGY": "unsafe-best-match"}  # the best version of any index; hashes identify files
HASH = re.compile(r"--hash=(sha256:[0-9a-f]{64})")


class PinError(Exception):
    """A package isn't pinned; the message has one line that says what to do."""


def needed(*extras: str) -> list[str]:
    """Return the requirements of the project with these extras."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    optional: dict[str, list[str]] = project["optional-dependencies"]

    def requirements_of(extra: str) -> Iterator[str]:
        for requirement in optional[extra]:
            if (own := re.fullmatch(r"sluice-llm\[(.*)\]", requirement)) is not None:
                for other in own[1].split(","):
                    yield from requirements_of(other)
            else:
                yield requirement

    return sorted({*project["dependencies"], *(each for extra in extras for each in requirements_of(extra))})


def pins(text: str) -> dict[tuple[str, str], list[str]]:
    """Return the hashes in a file of pins, by name and version."""
    found: dict[tuple[str, str], list[str]] = {}
    for match in PINNED.finditer(text):
        key = (_plain(match["name"]), match["version"])
        found.setdefault(key, []).extend(HASH.findall(match["rest"]))
    return found


def versions(text: str) -> list[str]:
    """Return a file of pins without its hashes: the versions that a resolution may choose."""
    return [
        f"{match['name']}=={match['version']}{match['rest'].partition(chr(92))[0]}" for match in PINNED.finditer(text)
    ]


def hashed(resolved: str, text: str) -> list[str]:
    """Return name, version and hashes of each resolved package (`name==version` lines).

    Raise PinError for a package that isn't pinned.
    """
    known, lines = pins(text), []
    for name, version in pins(resolved):
        hashes = known.get((name, version.partition("+")[0]))
        if not hashes:
            raise PinError(f"{name} {version} is not in constraints.txt; run: make pins")
        lines.append(" ".join([f"{name}=={version}", *(f"--hash={each}" for each in hashes)]))
    return sorted(lines)


def sources(listing: str) -> dict[str, str]:
    """Return the variables that give uv the package sources in pip's configuration.

    `listing` is the output of `pip config list`. pip's environment variables come first in it and take precedence.
    """
    settings: dict[str, str] = {}
    for line in listing.splitlines():
        name, _, value = line.partition("=")
        settings.setdefault(name.rpartition(".")[2], ast.literal_eval(value))
    found = {_UV_VARIABLES[name]: value for name, value in settings.items() if name in _UV_VARIABLES}
    if "UV_FIND_LINKS" in found:
        found["UV_FIND_LINKS"] = ",".join(found["UV_FIND_LINKS"].split())
    return {**found, **_LIKE_PIP}


def install(python: str, extras: str, *options: str) -> None:
    """Install what these extras need, by version and hash, for `python`. `options` are uv's."""
    text = LOCK.read_text()
    with tempfile.TemporaryDirectory() as folder:
        wanted, chosen, resolved, pinned = (Path(folder, name) for name in ("wanted", "versions", "resolved", "pinned"))
        wanted.write_text("\n".join(needed(*extras.split(","))))
        chosen.write_text("\n".join(versions(text)))
        plain = ("--no-annotate", "--no-header")
        run_uv("pip", "compile", wanted, "-c", chosen, "-o", resolved, "--python", python, *plain)
        pinned.write_text("\n".join(hashed(resolved.read_text(), text)))
        run_uv("pip", "install", "--python", python, "--no-deps", "--require-hashes", "-r", pinned, *options)


def run_uv(*arguments: str | Path) -> None:
    """Run uv, quietly, after installing it if it is missing. Raise CalledProcessError if it fails."""
    uv = Path(sys.prefix, "bin", "uv")
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check"]
    if not uv.exists():
        text = LOCK.read_text()
        own = next(each for each in versions(text) if each.startswith("uv=="))
        with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
            file.write("\n".join(hashed(own, text)))
            file.flush()
            subprocess.run([*pip, "install", "--quiet", "--no-deps", "--require-hashes", "-r", file.name], check=True)
    listing = subprocess.run([*pip, "config", "list"], check=True, stdout=subprocess.PIPE, text=True).stdout
    environment = {**sources(listing), **os.environ}
    subprocess.run([uv, "--no-config", "--quiet", *arguments], check=True, env=environment)


def lock() -> None:
    """Rewrite all pins. Present versions that satisfy the requirements are kept."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    with tempfile.TemporaryDirectory() as folder:
        made = Path(folder, "lock.txt")
        made.write_text(LOCK.read_text())
        _compile(ROOT / "pyproject.toml", made, "--all-extras", "--universal", "--python-version", "3.11")
        text = made.read_text()
        LOCK.write_text(HEADER + _with_own_files(text, _report(text, sorted(extras))))
    for client in sorted((ROOT / "tests" / "clients" / "requirements").rglob("*.txt")):
        _compile(client, client, "--no-deps", "--python-version", "3.11")
    for own in NPM_LOCKS:
        subprocess.run(
            ["npm", "install", "--package-lock-only", "--omit-lockfile-registry-resolved", "--no-audit", "--no-fund"],
            cwd=own.parent, check=True,
        )  # fmt: skip
        own.write_text(json.dumps(with_other_platforms(json.loads(own.read_text())), indent=2) + "\n")


def with_other_platforms(lock: dict[str, Any]) -> dict[str, Any]:
    """Return npm's pins with the packages of other platforms, which `npm ci` requires and some registries lack."""
    packages: dict[str, Any] = lock["packages"]
    for package in list(packages.values()):
        for name, version in package.get("optionalDependencies", {}).items():
            system, _, processor = name.rpartition("/")[2].partition("-")[2].partition("-")
            other = {
                "version": version,
                "optional": True,
                "os": [system],
                "cpu": [_PROCESSORS.get(processor, processor)],
            }
            packages.setdefault(f"node_modules/{name}", other)
    return lock


def _compile(source: Path, to: Path, *options: str) -> None:
    hashes = ("--generate-hashes", "--no-annotate", "--no-header")
    run_uv("pip", "compile", source, "-o", to, *hashes, *options)


def _report(text: str, extras: list[str]) -> dict[str, Any]:
    """Return pip's report of what it would install here by these pins, from its configured sources."""
    with tempfile.TemporaryDirectory() as folder:
        report, wanted, pinned = (Path(folder, name) for name in ("report.json", "needed.txt", "versions.txt"))
        wanted.write_text("\n".join(needed(*extras)))
        pinned.write_text("\n".join(versions(text)))
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--dry-run"]
        command += ["--ignore-installed", "--report", str(report), "-c", str(pinned), "-r", str(wanted)]
        subprocess.run(command, check=True)
        content: dict[str, Any] = json.loads(report.read_text())
        return content


def _with_own_files(text: str, report: dict[str, Any]) -> str:
    """Return the pins with the hashes of this machine's builds of the same versions, such as torch's for CPUs."""
    known = pins(text)
    for package in report["install"]:
        name, version = _plain(package["metadata"]["name"]), package["metadata"]["version"].partition("+")[0]
        place = urlparse(package["download_info"]["url"])
        if place.scheme != "file":
            continue
        own = f"sha256:{hashlib.sha256(Path(unquote(place.path)).read_bytes()).hexdigest()}"
        if own not in known.get((name, version), []):
            print(f"{name} {version}: a build from this machine's package source, {own}")
            line = re.compile(rf"^({re.escape(name)}=={re.escape(version)}.*?) \\\n", re.MULTILINE | re.IGNORECASE)
            text = line.sub(rf"\1 \\\n    --hash={own} \\\n", text, count=1)
    return text


def _plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def main(command: str, *arguments: str) -> None:
    """Run one of the commands."""
    if command == "install":
        install(*arguments)
    elif command == "uv":
        run_uv(*arguments)
    else:
        lock()


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except PinError as error:
        sys.exit(f"pins: {error}")
    except subprocess.CalledProcessError as error:
        sys.exit(error.returncode)
