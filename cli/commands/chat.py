"""`sluice chat`: a conversation in the terminal, or one question with its answer on standard output."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from cli.calls.conversation import Conversation
from cli.calls.image import read_image
from cli.calls.options import (
    DEFAULT,
    AsJson,
    CaFile,
    Key,
    ModelName,
    Url,
    connected,
    fail,
    print_json,
    print_text,
)
from cli.calls.prompt_bar import PromptBar
from cli.calls.server import Server, ServerError
from process.logs.terminal import plain

_HELP = """\
  /system TEXT      set the system prompt; without TEXT, remove it
  /set NAME=VALUE   set a parameter, such as temperature=0.2 or max_tokens=200; /set alone shows them
  /model NAME       switch to another model; /model alone lists them
  /image PATH       attach an image to the next question; /image alone removes all
  /retry            generate another answer to the last question
  /undo             remove the last question and its answer
  /save FILE        write the conversation as JSON; /load FILE reads it; without FILE: conversation.json
  /clear            start a new conversation with the same system prompt
  /exit             exit, as does Ctrl-D. Ctrl-C stops an answer
  A line that ends with \\ continues on the next; a text between two lines of \"\"\" can have several lines."""
_FILE = "conversation.json"  # that of /save and /load if they name none
_DIM, _PLAIN = "\x1b[2m", "\x1b[0m"


def chat(
    question: Annotated[
        str, typer.Argument(help="A single question; without it: a conversation, or standard input.")
    ] = "",
    model: ModelName = "",
    system: Annotated[str, typer.Option(help="The system prompt.")] = "",
    parameter: Annotated[
        list[str], typer.Option("--set", metavar="NAME=VALUE", help="A request parameter; repeatable.")
    ] = [],
    as_json: AsJson = False,
    url: Url = DEFAULT,
    key: Key = "",
    ca_file: CaFile = "",
) -> None:
    """Chat with a model. --json prints the answer as the server's events, one per line."""
    with connected(url, key, ca_file) as server:
        conversation = Conversation(server, model or _first_model(server))
        conversation.set_system(system)
        try:
            for each in parameter:
                conversation.set(each)
        except ValueError as error:
            fail(f"--set {error}")
        if question or not sys.stdin.isatty():
            _ask_once(conversation, question or sys.stdin.read(), as_json=as_json)
        else:
            Prompt(conversation).run()


def _first_model(server: Server) -> str:
    """Return the name of the first model that the server lists. Raise ServerError if there is none."""
    names = server.models()
    if not names:
        raise ServerError(f"{server.url} serves no model that this key may use")
    return names[0]


def _ask_once(conversation: Conversation, question: str, *, as_json: bool) -> None:
    """Ask one question and print the answer."""
    if not question.strip():
        fail("nothing to ask: standard input is empty")

    def show(piece: str, is_reasoning: bool) -> None:  # noqa: FBT001  read_answer's signature
        if not as_json and not is_reasoning:
            print_text(piece, nl=False)

    def show_event(event: dict[str, Any]) -> None:
        if as_json:
            print_json(event, indent=None)

    answer = conversation.ask(question, show, show_event, PromptBar())
    if not as_json:
        typer.echo()
    if answer.finish_reason == "Ctrl-C":
        raise typer.Exit(130)


class Prompt:
    """The interactive prompt: reads questions and /commands from the terminal."""

    def __init__(self, conversation: Conversation) -> None:
        self._conversation = conversation
        self._commands: dict[str, Callable[[str], None]] = {
            "/help": lambda _: typer.echo(_HELP),
            "/system": conversation.set_system,
            "/set": self._set,
            "/model": self._model,
            "/image": self._image,
            "/retry": self._retry,
            "/undo": lambda _: print_text(f"removed: {conversation.undo()}"),
            "/save": self._save,
            "/load": self._load,
            "/clear": lambda _: conversation.clear(),
        }

    def run(self) -> None:
        """Read and run lines until /exit or Ctrl-D."""
        import readline  # noqa: F401, PLC0415  adds editing and history to input()

        print_text(f"{self._conversation.model} at {self._conversation.server.url}; /help lists commands, Ctrl-D exits")
        while True:
            try:
                text = self._read()
            except KeyboardInterrupt:
                typer.echo("\nCtrl-D or /exit exits")
                continue
            except EOFError:
                typer.echo()
                return
            word, _, rest = text.strip().partition(" ")
            if word in {"/exit", "/quit"}:
                return
            try:
                if word in self._commands:
                    self._commands[word](rest.strip())
                elif word.startswith("/"):
                    typer.echo(f"{word}: no such command; /help lists them")
                elif word:
                    self._ask(text)
            except (ServerError, ValueError) as error:
                print_text(f"{error}")
            except OSError as error:
                typer.echo(f"{rest.strip() or _FILE}: {error.strerror or error}")

    def _read(self) -> str:
        """Read one message. Raise EOFError or KeyboardInterrupt."""
        text = input("> ")
        if text.strip() == '"""':
            lines = []
            while (line := input(". ")).strip() != '"""':
                lines.append(line)
            return "\n".join(lines)
        while text.endswith("\\"):
            text = f"{text[:-1]}\n{input('. ')}"
        return text

    def _ask(self, question: str) -> None:
        """Send a question and print its answer, with reasoning dimmed."""
        was_reasoning = False

        def show(piece: str, is_reasoning: bool) -> None:  # noqa: FBT001  read_answer's signature
            nonlocal was_reasoning
            if is_reasoning != was_reasoning:
                typer.echo(_DIM if is_reasoning else f"{_PLAIN}\n", nl=False)
                was_reasoning = is_reasoning
            print_text(piece, nl=False)

        try:
            answer = self._conversation.ask(question, show, lambda _: None, PromptBar())
        finally:
            typer.echo(_PLAIN)
        typer.echo(f"{_DIM}{plain(answer.summary()) or 'no text'}{_PLAIN}")

    def _set(self, text: str) -> None:
        """Set a parameter, NAME=VALUE, and print all parameters."""
        if text:
            self._conversation.set(text)
        for name, value in self._conversation.parameters.items():
            typer.echo(f"  {name}={json.dumps(value, ensure_ascii=False)}")

    def _model(self, name: str) -> None:
        """Print the names of the models, or switch to one."""
        names = self._conversation.server.models()
        if not name:
            print_text("\n".join(("* " if each == self._conversation.model else "  ") + each for each in names))
        elif name in names:
            self._conversation.model = name
        else:
            print_text(f"{name}: no such model; available: {', '.join(names)}")

    def _image(self, path: str) -> None:
        """Attach an image to the next question, or remove all attached images."""
        images = self._conversation.images
        if path:
            images.append(read_image(Path(path).expanduser()))
        else:
            images.clear()
        typer.echo(f"{len(images)} images are attached to the next question")

    def _retry(self, _: str) -> None:
        """Send the last question again."""
        kept, images = list(self._conversation.messages), list(self._conversation.images)
        question = self._conversation.undo()
        if not question:
            typer.echo("there is no question to retry")
            return
        try:
            self._ask(question)
        except ServerError:
            self._conversation.messages, self._conversation.images = kept, images  # restores the previous answer
            raise

    def _save(self, path: str) -> None:
        """Write the conversation to a file."""
        kept = {"model": self._conversation.model, "messages": self._conversation.messages}
        Path(path or _FILE).write_text(json.dumps(kept, indent=2, ensure_ascii=False) + "\n")
        typer.echo(f"written to {path or _FILE}")

    def _load(self, path: str) -> None:
        """Read a conversation that `_save` wrote. Raise ValueError for any other file."""
        try:
            kept = json.loads(Path(path or _FILE).read_text())
            messages = [{"role": each["role"], "content": each["content"]} for each in kept["messages"]]
        except (ValueError, KeyError, TypeError) as error:
            raise ValueError(f"{path or _FILE} is not a conversation that /save wrote") from error
        self._conversation.messages = messages
        typer.echo(f"{len(messages)} messages")
