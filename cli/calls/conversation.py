"""A conversation with a model: its messages, and the questions that continue it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

from cli.calls.answer import Answer, read_answer
from cli.calls.options import named_value
from cli.calls.prompt_bar import PromptBar
from cli.calls.server import Server, ServerError

_PROGRESS: Final = "return_progress"  # a request for the progress of a long prompt


class Conversation:
    """The messages of a conversation, and the model and parameters of its next request."""

    def __init__(self, server: Server, model: str) -> None:
        self.server = server
        self.model = model
        self.messages: list[dict[str, Any]] = []
        self.parameters: dict[str, Any] = {}
        self.images: list[str] = []  # data URLs, attached to the next question
        self._knows_progress = True  # until the server rejects the field

    def set_system(self, system: str) -> None:
        """Replace the system prompt."""
        self.messages = [message for message in self.messages if message["role"] != "system"]
        if system:
            self.messages.insert(0, {"role": "system", "content": system})

    def set(self, text: str) -> None:
        """Set a parameter from NAME=VALUE, with VALUE as JSON or text; an empty value unsets it. Raise ValueError."""
        name, value = named_value(text)
        self.parameters.pop(name, None)
        if value is not None:
            self.parameters[name] = value

    def clear(self) -> None:
        """Remove all messages but the system prompt, and the attached images."""
        self.messages = [message for message in self.messages if message["role"] == "system"]
        self.images = []

    def undo(self) -> str:
        """Remove the last question and all messages after it. Return the question, empty if there is none.

        Its images are attached to the next question.
        """
        for index in range(len(self.messages) - 1, -1, -1):
            if self.messages[index]["role"] == "user":
                content: str | list[dict[str, Any]] = self.messages[index]["content"]
                del self.messages[index:]
                if isinstance(content, str):
                    return content
                self.images = [part["image_url"]["url"] for part in content if part["type"] == "image_url"]
                return "".join(part["text"] for part in content if part["type"] == "text")
        return ""

    def ask(
        self, question: str, show: Callable[[str, bool], None], note: Callable[[dict[str, Any]], None], bar: PromptBar
    ) -> Answer:
        """Ask a question, and store it with its answer, even if Ctrl-C ended it. On ServerError neither is stored."""
        images, self.images = self.images, []
        self.messages.append({"role": "user", "content": _content(question, images)})
        answer = Answer()
        try:
            for event in self._events(show, answer, with_progress=bar.is_shown):
                bar.update(event)
                note(event)
        except KeyboardInterrupt:
            answer.finish_reason = "Ctrl-C"
        except ServerError:
            self.messages.pop()
            self.images = images
            raise
        finally:
            bar.clear()
        if answer.text:
            self.messages.append({"role": "assistant", "content": answer.text})
        else:
            self.messages.pop()
        return answer

    def _events(
        self, show: Callable[[str, bool], None], answer: Answer, *, with_progress: bool
    ) -> Iterator[dict[str, Any]]:
        """Yield the events of an answer. A server that knows no progress is asked again without it."""
        if with_progress and self._knows_progress:
            body = {"model": self.model, "messages": self.messages, _PROGRESS: True, **self.parameters}
            try:
                yield from read_answer(self.server, body, show, answer)
            except ServerError as error:
                if _PROGRESS not in str(error):
                    raise
                self._knows_progress = False
            else:
                return
        body = {"model": self.model, "messages": self.messages, **self.parameters}
        yield from read_answer(self.server, body, show, answer)


def _content(question: str, images: list[str]) -> str | list[dict[str, Any]]:
    """Return a question as the content of a message, with its images before it."""
    parts: list[dict[str, Any]] = [{"type": "image_url", "image_url": {"url": url}} for url in images]
    return [*parts, {"type": "text", "text": question}] if parts else question
