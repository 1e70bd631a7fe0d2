"""The bar of a long prompt in a terminal."""

from __future__ import annotations

import io

from cli.calls.prompt_bar import PromptBar

CLEAR = "\r\x1b[2K"


class FakeTerminal(io.StringIO):
    """A terminal that keeps what it is sent."""

    def isatty(self) -> bool:
        return True


def event(processed: int, time_ms: int, *, cache: int = 0) -> dict[str, object]:
    return {"prompt_progress": {"total": 3000, "cache": cache, "processed": processed, "time_ms": time_ms}}


def test_bar_of_a_long_prompt_is_drawn_and_removed() -> None:
    """It is drawn from the first event on that promises more than a second, and removed by the last one."""
    terminal = FakeTerminal()
    bar = PromptBar(terminal)
    bar.update({"choices": []})
    bar.update(event(1000, 300))
    assert terminal.getvalue() == ""
    bar.update(event(1500, 600))
    bar.update(event(2000, 700))
    bar.update(event(3000, 900))
    bar.clear()
    assert terminal.getvalue() == (
        f"{CLEAR}prompt [{'#' * 15}{'.' * 15}] 1,500 of 3,000 tokens"
        f"{CLEAR}prompt [{'#' * 20}{'.' * 10}] 2,000 of 3,000 tokens{CLEAR}"
    )


def test_cached_tokens_are_no_work() -> None:
    """The time that a prompt is expected to take depends on the tokens that were not cached."""
    terminal = FakeTerminal()
    PromptBar(terminal).update(event(2500, 600, cache=2000))
    assert "2,500 of 3,000" in terminal.getvalue()


def test_bar_is_removed_when_an_answer_fails_before_it_begins() -> None:
    """`clear` removes a bar that is drawn, once."""
    terminal = FakeTerminal()
    bar = PromptBar(terminal)
    bar.update(event(500, 1000))
    bar.clear()
    bar.clear()
    assert terminal.getvalue().endswith(f"tokens{CLEAR}")


def test_without_a_terminal_nothing_is_asked_or_drawn() -> None:
    """A file or a pipe gets no bar."""
    pipe = io.StringIO()
    bar = PromptBar(pipe)
    assert not bar.is_shown
    bar.update(event(500, 1000))
    assert pipe.getvalue() == ""
