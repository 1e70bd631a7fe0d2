"""Makes the README's pictures anew: a terminal from start to conversation, as SVG, and the page to chat on, as PNG.

Usage: python -m tools.pictures [FOLDER], docs/assets otherwise. What is shown is what the product wrote into a
pseudo-terminal, on its usual ports, which must be free; the page is what Chromium draws.
"""

from __future__ import annotations

import io
import os
import pty
import re
import select
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.text import Text

ROOT: Final = Path(__file__).resolve().parent.parent
COLUMNS: Final = 112
TIMEOUT_S: Final = 60
QUESTIONS: Final = ("Hello! Who are you?", "What is the capital of France?")


class Screen:
    """A program in a pseudo-terminal, and all that it wrote."""

    def __init__(self, *words: str) -> None:
        master, slave = pty.openpty()
        env = {**os.environ, "COLUMNS": str(COLUMNS), "TERM": "dumb"}
        self.process = subprocess.Popen(
            [sys.executable, *words], cwd=ROOT, env=env, stdin=slave, stdout=slave, stderr=slave, start_new_session=True
        )
        os.close(slave)
        self._master = master
        self.text = ""

    def until(self, text: str, times: int = 1) -> None:
        """Wait until it has written `text` so often. Exits if it doesn't."""
        deadline = time.monotonic() + TIMEOUT_S
        while self.text.count(text) < times:
            if not select.select([self._master], [], [], max(0.0, deadline - time.monotonic()))[0]:
                sys.exit(f"{text!r} is not in {self.text!r}")
            self.text += os.read(self._master, 1 << 16).decode().replace("\r\n", "\n")

    def type(self, text: str) -> None:
        """Press these keys."""
        os.write(self._master, text.encode())


def terminal(start: str, conversation: str) -> str:
    """Both, one below the other, as SVG."""
    console = Console(record=True, width=COLUMNS, force_terminal=True, file=io.StringIO())
    for typed, shown in (("make run", start), (".venv/bin/sluice chat --set temperature=0", conversation)):
        console.print(Text(f"$ {typed}", style="bold green"))
        console.print(Text.from_ansi(shown.strip("\n")))
    drawn = console.export_svg(title="sluice", unique_id="sluice")
    return re.sub(r"@font-face \{.*?\}", "", drawn, flags=re.DOTALL)  # nobody else is asked for a font


def main() -> None:
    """Make both."""
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "docs" / "assets")
    serve = Screen("-m", "cli", "serve")
    try:
        serve.until("Ctrl-C stops everything.")
        start = serve.text.replace(f"{ROOT}/", "")
        chat = Screen("-m", "cli", "chat", "--set", "temperature=0")
        for number, question in enumerate(QUESTIONS, 1):
            chat.until("> ", number)
            chat.type(f"{question}\n")
            chat.until("first after", number)
        chat.until("> ", len(QUESTIONS) + 1)
        chat.process.kill()
        (folder / "terminal.svg").write_text(terminal(start, chat.text))
        page = [
            "node",
            "tests/e2e/chat_page.mjs",
            "http://127.0.0.1:8080/",
            str(shutil.which("chromium-headless-shell")),
        ]
        pictures = [str(ROOT / ".cache/npm/node_modules"), "conversation", str(folder)]
        subprocess.run([*page, *pictures], cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
        (folder / "conversation.png").replace(folder / "chat_page.png")
    finally:
        serve.process.send_signal(signal.SIGINT)
        serve.process.wait()


if __name__ == "__main__":
    main()
