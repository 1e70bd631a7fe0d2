"""The forms of a delta: which types hold a token's text between the sampler and the bytes of a server-sent event.

A profiler records each Python constructor that gets the text, so a form that only copies fields is counted too.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from sluice.v1 import chat_pb2

from gateway.dialects.openai_family.chat.encoder import ChatEncoder
from service.answering.resumable_stream import ResumableStream
from service.contract.generations.chat import ChatRenderer
from service.engine.client.output_stream import OutputStream
from service.engine.core.engine_core import SampledToken
from service.engine.interface.messages import Report
from service.engine.link.worker import wire
from service.generation.formats.constraint import ReasoningStart
from service.generation.outputs.output import GenerationOutput
from service.output.answers.answer import AnswerReader
from service.output.answers.choice import AnswerForm
from service.output.families.object_calls import HERMES
from service.output.families.reasoning_families import THINK
from tests.engine.byte_tokenizer import ChunkTokenizer
from tests.engine.fakes import group_of, request
from tools.docs.docs_site import ROOT

TEXT = "unmistakable"
IDENTITY = b"stream"


def documented() -> list[str]:
    """Return the first column of the table in docs/architecture.md."""
    page = (ROOT / "docs/architecture.md").read_text()
    section = page.split("## The forms of a delta", 1)[1].split("\n## ", 1)[0]
    return re.findall(r"^\| `?([\w ]+?)`? \|", section, re.MULTILINE)[1:]


@contextmanager
def holders() -> Iterator[list[str]]:
    """Yield the names of the classes whose constructors are called with the text, each once."""
    found: list[str] = []

    def note(frame: FrameType, event: str, _: Any) -> None:
        if event != "call" or not any(isinstance(each, str) and TEXT in each for each in frame.f_locals.values()):
            return
        values = frame.f_locals
        if "_cls" in values:  # a named tuple's constructor
            name = values["_cls"].__name__
        elif frame.f_code.co_name == "__init__":
            name = type(values["self"]).__name__
        else:
            return
        if name not in found:
            found.append(name)

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        yield found
    finally:
        sys.setprofile(before)


async def test_text_of_a_token_has_no_more_forms_than_documented() -> None:
    tokenizer = ChunkTokenizer([TEXT.encode(), b"x"])
    expected = request([1])
    sampled = SampledToken(0)
    sequence = group_of(expected, tokenizer=tokenizer).sequences[0]
    form = AnswerForm(THINK, ReasoningStart.MAY_OPEN, HERMES, {"f": {}})
    reader = AnswerReader([expected], [form], tokenizer, answer_id="a")
    renderer, encoder = ChatRenderer(chat_pb2.ChatRequest()), ChatEncoder()
    numbered: ResumableStream[chat_pb2.StreamChatResponse] = ResumableStream(1, IDENTITY)
    stream = OutputStream(1)
    with holders() as found:
        sequence.take(sampled.token_id, 1.0)
        report = wire.pack(Report(outputs=[(0, output) for output in sequence.take_outputs()]))
        (received,) = wire.Unpacker().feed(report)
        for _, output in received.outputs:
            assert isinstance(output, GenerationOutput)
            stream.put(output)
        events = reader.read(await anext(stream))
        (message,) = numbered.number(events, renderer.render(events))
        chunk = encoder.chunk(message)
    assert TEXT.encode() in report
    assert message.content_delta.text == TEXT
    assert TEXT.encode() in chunk
    assert found == ["GenerationOutput", "Text"]
    assert documented() == [
        type(sampled).__name__, "GenerationOutput", "report bytes", "Text", type(message).__name__, "SSE bytes"
    ]  # fmt: skip
