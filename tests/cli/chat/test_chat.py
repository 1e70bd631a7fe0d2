"""`sluice chat` against the whole product: piped, with one question, and typed in a terminal."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from cli.calls.answer import Answer
from tests.cli.terminal import Terminal
from tests.command import sluice
from tests.e2e.faults.disconnects import until_call_ended
from tests.e2e.stack import ROOT, Stack
from tests.waiting import GUARD_S

GREEDY = ["--set", "temperature=0"]
QUESTION = "Who are you?"
ANSWER = "I am sluice-demo, the small demo model of the sluice service."
ENDLESS = ["--set", "ignore_eos=true", "--set", "max_tokens=1900", "--set", "temperature=2", "--set", "top_p=1"]


def test_answer_to_one_question_is_printed_to_standard_output(stack: Stack) -> None:
    """Only the answer is printed, whether the question is an argument or piped in."""
    for done in (
        sluice("chat", QUESTION, *GREEDY, url=stack.url),
        sluice("chat", *GREEDY, text=QUESTION, url=stack.url),
    ):
        assert (done.returncode, done.stdout, done.stderr) == (0, f"{ANSWER}\n", "")


def test_json_option_prints_the_servers_events(stack: Stack) -> None:
    """--json prints one event per line, the last with the usage."""
    events = [json.loads(line) for line in sluice("chat", QUESTION, "--json", url=stack.url).stdout.splitlines()]
    assert events[0]["object"] == "chat.completion.chunk"
    assert events[-1]["usage"]["completion_tokens"] > 0


@pytest.mark.parametrize(
    ("words", "code", "text"),
    [
        (["hello", "--set", "temperature"], 1, "--set 'temperature' is not NAME=VALUE"),
        (["hello", "--set", "temperature=9"], 1, "temperature: must be greater than or equal to 0 and less than"),
        (["hello", "--model", "nobody"], 1, "no model named 'nobody' is served"),
        ([""], 1, "nothing to ask: standard input is empty"),
        (["hello", "--flag"], 2, "No such option: --flag"),
    ],
)
def test_errors_are_printed_in_one_line(stack: Stack, words: list[str], code: int, text: str) -> None:
    """The error names the flag or the field, without a traceback."""
    done = sluice("chat", *words, url=stack.url)
    assert (done.returncode, done.stdout) == (code, "")
    assert text in done.stderr
    assert "Traceback" not in done.stderr
    if code == 1:
        assert done.stderr.startswith("sluice: ")
        assert done.stderr.count("\n") == 1


@pytest.mark.slow
@pytest.mark.parametrize(
    ("command", "url"),
    [
        (["chat", "hello"], "http://127.0.0.1:1"),
        (["complete", "hello"], "http://nobody.invalid:8080"),
        (["embed", "hello"], "ftp://127.0.0.1"),
        (["status"], "http://[x"),
        (["models"], "127.0.0.1:1"),
    ],
)
def test_error_about_a_missing_server_names_its_url(command: list[str], url: str) -> None:
    """The error is one line with the URL."""
    done = sluice(*command, url=url)
    assert (done.returncode, done.stdout.strip()) == (1, "")
    assert url in done.stderr
    assert done.stderr.count("\n") == 1, done.stderr


def test_a_closed_output_causes_no_traceback(stack: Stack) -> None:
    """`sluice chat … | head -c 1` ends without an error."""
    done = subprocess.run(  # noqa: S602  as users type it
        f"{sys.executable} -m cli chat 'Count to 1000.' --url {stack.url} --set ignore_eos=true | head -c 1",
        shell=True, cwd=ROOT, capture_output=True, text=True, timeout=GUARD_S, check=True,
    )  # fmt: skip
    assert len(done.stdout) == 1
    assert done.stderr == ""


def test_terminal_conversation_streams_and_supports_commands(stack: Stack, tmp_path: Path) -> None:
    """Answers stream, later turns have the earlier ones, and commands change the request and save the conversation."""
    with Terminal("chat", *GREEDY, env={"SLUICE_URL": stack.url}) as terminal:
        terminal.until(f"sluice-demo at {stack.url}; /help lists commands, Ctrl-D exits\n")

        def enter(text: str, shown: str) -> str:
            """Type a line at the prompt, and return the output up to `shown`."""
            terminal.until("> ")
            terminal.type(f"{text}\n")
            return terminal.until(shown)

        assert ANSWER in enter(QUESTION, "first token after")
        terminal.until("> ")
        terminal.type("My name is\\\n")
        terminal.until(". ")
        terminal.type("Ada.\n")
        terminal.until("first token after")
        enter('"""\nTwo lines,\nand a "quoted" one.\n"""', "first token after")
        enter(f"/save {tmp_path / 'saved.json'}", "written to")
        saved = json.loads((tmp_path / "saved.json").read_text())
        assert [message["role"] for message in saved["messages"]] == ["user", "assistant"] * 3
        assert saved["messages"][1]["content"] == ANSWER
        assert saved["messages"][2]["content"] == "My name is\nAda."
        assert saved["messages"][4]["content"] == 'Two lines,\nand a "quoted" one.'
        enter("/undo", "removed: Two lines,")
        terminal.until("> ")
        terminal.type("/clear\n")
        enter("/retry", "there is no question to retry")
        enter(f"/load {tmp_path / 'saved.json'}", "6 messages")
        terminal.until("> ")
        terminal.type("/set max_tokens=3\n")
        terminal.until("> ")
        terminal.type("/system Be brief.\n")
        assert "3 tokens, " in enter("/retry", "ended by length")
        enter("/model nobody", "nobody: no such model; available: sluice-demo, all-minilm-l6-v2")
        enter("/model", "* sluice-demo\n")
        enter("/nonsense", "/nonsense: no such command; /help lists them")
        enter("/load /nowhere/at/all", "/nowhere/at/all: No such file or directory")
        enter("/load", "conversation.json: No such file or directory")
        terminal.until("> ")
        terminal.type("/set temperature=9\n")
        enter("Hello?", "temperature: must be greater than or equal to 0")
        terminal.until("> ")
        terminal.type("/set temperature=\n")
        enter("Hello?", "first token after")
        terminal.until("> ")
        terminal.type("\x04")
        assert terminal.end() == 0
        assert "Traceback" not in terminal.shown


def test_ctrl_c_stops_the_answer_but_not_the_program(stack: Stack) -> None:
    """Ctrl-C stops the generation at the server, and the conversation continues."""
    with Terminal("chat", *ENDLESS, env={"SLUICE_URL": stack.url}) as terminal:
        terminal.until("> ")
        terminal.interrupt_until("Ctrl-D or /exit exits")
        terminal.until("> ")
        is_stopped = False
        while not is_stopped:  # an answer that has ended before the engine is held proves nothing
            num_ended = len(stack.generation_lines())
            terminal.type("Count to 1000.\n")
            terminal.until("Count to 1000.\n")
            terminal.until("e")  # some of the answer
            with stack.engine_held():
                terminal.type("\x03")
                terminal.until("ended by ")
                ending = terminal.until("> ")
                until_call_ended(stack, num_ended)
                is_stopped = "Ctrl-C" in ending and '"status":"CANCELLED"' in stack.generation_lines()[-1]
        stack.until_idle()
        terminal.type("/set max_tokens=5\n")
        terminal.until("> ")
        terminal.type("And then?\n")
        terminal.until("5 tokens, ")
        terminal.until("> ")
        terminal.type("/exit\n")
        assert terminal.end() == 0


@pytest.mark.parametrize(
    ("num_tokens", "took_s", "summary"),
    [
        (101, 1.5, "101 tokens, 100 tokens/s, first token after 500 ms"),
        (101, 0.5002, "101 tokens, first token after 500 ms"),
        (1, 1.5, "1 tokens, first token after 500 ms"),
        (None, 1.5, "first token after 500 ms"),
    ],
)
def test_speed_is_shown_if_it_was_measured(num_tokens: int | None, took_s: float, summary: str) -> None:
    """An answer whose chunks arrive at once has no speed, as on the chat page."""
    answer = Answer(text="x", num_tokens=num_tokens, first_s=0.5, took_s=took_s)
    assert answer.summary() == summary
