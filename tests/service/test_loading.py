"""A model's settings reach the model that is served."""

import numpy as np
from sluice.v1 import chat_pb2, content_pb2, tool_pb2

from service.config import DEMO_FOLDER, ChatSettings, EngineSettings, ModelSettings
from service.engine.types import EngineStats
from service.loading import load_model
from service.servicers.catalog import ServedModel

ORDER = "Answer in upper case."


class Nobody:
    """Watches no steps."""

    def on_step(self, stats: EngineStats) -> None:
        """Look away."""


def loaded(chat: ChatSettings) -> ServedModel:
    settings = ModelSettings(
        name="demo", path=str(DEMO_FOLDER), dtype="auto", device="cpu", engine=EngineSettings(num_blocks=64), chat=chat
    )
    return load_model(settings, Nobody())


async def prompt_length(model: ServedModel, *roles_and_texts: tuple[content_pb2.Role, str]) -> int:
    messages = [
        content_pb2.Message(role=role, content=[content_pb2.ContentPart(text=text)]) for role, text in roles_and_texts
    ]
    prepared = await model.chat.prepare(chat_pb2.ChatRequest(model="demo", messages=messages), "1")
    return len(prepared.generation.prompt_token_ids)


async def test_system_prompt_stands_where_the_caller_has_none() -> None:
    """The configured system prompt is the first message of a chat without one, and a caller's own replaces it."""
    question = (content_pb2.ROLE_USER, "Hello!")
    model, plain = loaded(ChatSettings(system_prompt=ORDER)), loaded(ChatSettings())
    bare = await prompt_length(plain, question)
    told = await prompt_length(plain, (content_pb2.ROLE_SYSTEM, ORDER), question)
    assert await prompt_length(model, question) == told > bare
    other = (content_pb2.ROLE_SYSTEM, "Answer.")
    assert await prompt_length(model, other, question) == await prompt_length(plain, other, question) < told


async def test_tool_syntax_of_the_settings_is_enforced() -> None:
    """A required call begins as the configured syntax begins one."""
    tool = tool_pb2.Tool(function=tool_pb2.FunctionDefinition(name="look"))
    request = chat_pb2.ChatRequest(
        model="demo",
        messages=[content_pb2.Message(role=content_pb2.ROLE_USER, content=[content_pb2.ContentPart(text="Hello!")])],
        tools=[tool],
        tool_choice=tool_pb2.ToolChoice(function_name="look"),
    )
    firsts = {}
    for chat in (ChatSettings(tool_syntax="hermes"), ChatSettings(tool_syntax="json")):
        prepared = await loaded(chat).chat.prepare(request, "1")
        constraint = prepared.generation.constraint
        assert constraint is not None
        words = np.zeros(64, dtype=np.int32)
        constraint.fill_mask(words)
        firsts[chat.tool_syntax] = words.tobytes()
    assert firsts["hermes"] != firsts["json"]
