"""Build envoy/connections_by_address.c and write the module into envoy/envoy.yaml, between two markers.

`make envoy-filter` installs the compiler and runs this. The first marker has the source's hash, so that a test without
a compiler detects a source that was changed but not built.
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
SOURCE = ROOT / "envoy" / "connections_by_address.c"
CONFIG = ROOT / "envoy" / "envoy.yaml"
MARKED = re.compile(
    r"^( *)# built from \S+, sha256 ([0-9a-f]{64})\n((?:.*\n)*?) *# end of what was built\n", re.MULTILINE
)
FLAGS = ["--target=wasm32-freestanding", "-std=c11", "-Oz", "-nostdlib", "-Wl,--no-entry", "-Wl,--strip-all"]
WIDTH = 96


def source_hash() -> str:
    """Return the hash of the current source."""
    return hashlib.sha256(SOURCE.read_bytes()).hexdigest()


def build(compiler: str) -> bytes:
    """Return the module that `zig` builds from the source."""
    with tempfile.TemporaryDirectory() as folder:
        module = Path(folder, "module.wasm")
        subprocess.run([compiler, "cc", *FLAGS, "-o", module, SOURCE], check=True, stderr=subprocess.DEVNULL)
        return module.read_bytes()


def marked(indent: str, module: bytes) -> str:
    """Return the lines of the file from the first marker to the last."""
    text = base64.b64encode(module).decode()
    pieces = [text[start : start + WIDTH] for start in range(0, len(text), WIDTH)]
    joined = f"\\\n{indent}  ".join(pieces)
    name = SOURCE.relative_to(ROOT)
    return (
        f"{indent}# built from {name}, sha256 {source_hash()}\n"
        f'{indent}inline_bytes: "{joined}"\n'
        f"{indent}# end of what was built\n"
    )


def main(compiler: str) -> None:
    """Rewrite the file."""
    module = build(compiler)
    text, count = MARKED.subn(lambda match: marked(match[1], module).replace("\\", "\\"), CONFIG.read_text())
    if count != 1:
        sys.exit(f"{CONFIG}: the markers are missing")
    CONFIG.write_text(text)
    print(f"{CONFIG.relative_to(ROOT)}: {len(module)} bytes of {SOURCE.name}")


if __name__ == "__main__":
    main(sys.argv[1])
