"""Build Envoy's filters, which are written in C, and write the modules into envoy/envoy.yaml, between two markers each.

`make envoy-filters` installs the compiler and runs this. The first marker has the hash of the source and of its header,
so that a test without a compiler detects a source that was changed but not built.
"""

from __future__ import annotations

import base64
import hashlib
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "envoy"
SOURCES = [FOLDER / "connections_by_address.c", FOLDER / "admission.c"]
HEADER = FOLDER / "proxy_wasm.h"
CONFIG = FOLDER / "envoy.yaml"
MARKED = re.compile(
    r"^( *)# built from envoy/(\S+), sha256 ([0-9a-f]{64})\n(?:.*\n)*? *# end of what was built\n", re.MULTILINE
)
FLAGS = ["--target=wasm32-freestanding", "-std=c11", "-Oz", "-nostdlib", "-Wl,--no-entry", "-Wl,--strip-all"]
WIDTH = 96


def source_hash(source: Path) -> str:
    """Return the hash of a source and the header."""
    return hashlib.sha256(source.read_bytes() + HEADER.read_bytes()).hexdigest()


def build(compiler: str, source: Path) -> bytes:
    """Return the module that `zig` builds from a source."""
    with tempfile.TemporaryDirectory() as folder:
        module = Path(folder, "module.wasm")
        subprocess.run([compiler, "cc", *FLAGS, "-o", module, source], check=True)
        return module.read_bytes()


def marked(indent: str, source: Path, module: bytes) -> str:
    """Return the lines of the file from a first marker to the last."""
    text = base64.b64encode(module).decode()
    pieces = [text[start : start + WIDTH] for start in range(0, len(text), WIDTH)]
    joined = f"\\\n{indent}  ".join(pieces)
    return (
        f"{indent}# built from envoy/{source.name}, sha256 {source_hash(source)}\n"
        f'{indent}inline_bytes: "{joined}"\n'
        f"{indent}# end of what was built\n"
    )


def main(compiler: str) -> None:
    """Rewrite the file."""
    modules = {source.name: build(compiler, source) for source in SOURCES}

    def current(match: re.Match[str]) -> str:
        return marked(match[1], FOLDER / match[2], modules.pop(match[2]))

    text = MARKED.sub(current, CONFIG.read_text())
    if modules:
        sys.exit(f"{CONFIG}: the markers of {', '.join(modules)} are missing")
    CONFIG.write_text(text)


if __name__ == "__main__":
    main(sys.argv[1])
