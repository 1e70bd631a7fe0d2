"""Record the README's pictures: a terminal from start to conversation, as an animated SVG, and the chat page.

Usage: make pictures, or python -m tools.docs.pictures [FOLDER]; default: docs/assets. The terminal shows the product's
output to a pseudo-terminal with its timing; the page is a screenshot by Chromium. The default ports must be free.
"""

from __future__ import annotations

import os
import pty
import select
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Final

from rich.text import Text

from tools.docs.recording import Line, animated_svg, lines_of

ROOT: Final = Path(__file__).resolve().parents[2]
COLUMNS: Final = 112
TIMEOUT_S: Final = 60
READING_S: Final = 1.4  # pause before each question, for reading the answer
QUESTIONS: Final = ("Hello! Who are you?", "What is the capital of France?")


class Screen:
    """A program in a pseudo-terminal, and its output."""

    def __init__(self, *words: str) -> None:
        master, slave = pty.openpty()
        env = {**os.environ, "COLUMNS": str(COLUMNS), "TERM": "dumb"}
        self.process = subprocess.Popen(
            [sys.executable, *words], cwd=ROOT, env=env, stdin=slave, stdout=slave, stderr=slave, start_new_session=True
        )
        os.close(slave)
        self._master = master
        self.text = ""
        self.moments: list[tuple[float, int]] = []  # instants, and the number of characters received by then

    def until(self, text: str, times: int = 1) -> None:
        """Wait until the program has written `text` this number of times. Exit if it doesn't."""
        deadline = time.monotonic() + TIMEOUT_S
        while self.text.count(text) < times:
            if not select.select([self._master], [], [], max(0.0, deadline - time.monotonic()))[0]:
                sys.exit(f"{text!r} is not in {self.text!r}")
            self.text += os.read(self._master, 1 << 16).decode().replace("\r\n", "\n").replace(f"{ROOT}/", "")
            self.moments.append((time.monotonic(), len(self.text)))

    def lines(self, command: str) -> list[Line]:
        """Return the command and its output, without this machine's paths."""
        shown = lines_of(self.text, self.moments)
        while shown and not shown[-1].text.plain:
            shown.pop()
        return [Line(Text(f"$ {command}", style="bold green"), self.moments[0][0]), *shown]

    def type(self, text: str) -> None:
        """Type this text."""
        os.write(self._master, text.encode())


def main() -> None:
    """Record both pictures."""
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "docs" / "assets")
    serve = Screen("-m", "cli", "serve")
    try:
        serve.until("Ctrl-C stops everything.")
        started = serve.lines("make run")
        chat = Screen("-m", "cli", "chat", "--set", "temperature=0")
        for number, question in enumerate(QUESTIONS, 1):
            chat.until("> ", number)
            time.sleep(READING_S)
            chat.type(f"{question}\n")
            chat.until("first after", number)
        chat.until("> ", len(QUESTIONS) + 1)
        chat.process.kill()
        talked = chat.lines(".venv/bin/sluice chat --set temperature=0")
        (folder / "terminal.svg").write_text(animated_svg([*started, *talked], COLUMNS))
        page = [
            "node",
            "tests/e2e/pages/chat_page.mjs",
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
