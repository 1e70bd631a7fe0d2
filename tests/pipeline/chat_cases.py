"""What the tests of whole chats share: a tokenizer, a tool, and the ways from a chat to its prompt and answer."""

from __future__ import annotations

import json

from service.pipeline.prepared_chat import PreparedChat
from sluice.v1 import chat_pb2, tool_pb2

from service.engine.tokenizer import FastTokenizer
from tests.pipeline.fakes import ADDED, END, events_of, fold, function, outputs_of, token_id, tokenizer_of

TOKENIZER = tokenizer_of(*ADDED)
END_ID = token_id(TOKENIZER, END)
SCHEMA = {
    "type": "object",
    "properties": {"city": {"type": "string", "maxLength": 8}, "days": {"type": "integer", "minimum": 0, "maximum": 9}},
    "required": ["city", "days"],
}
WEATHER = function("weather", json.dumps(SCHEMA))
REQUIRED = tool_pb2.ToolChoice(mode=tool_pb2.TOOL_CHOICE_MODE_REQUIRED)
NONE = tool_pb2.ToolChoice(mode=tool_pb2.TOOL_CHOICE_MODE_NONE)


def prompt_of(chat: PreparedChat, tokenizer: FastTokenizer = TOKENIZER) -> str:
    return tokenizer.decode(chat.generation.prompt_token_ids, skip_special_tokens=False)


def answer_of(chat: PreparedChat, text: str) -> chat_pb2.ChatChoice:
    """What becomes of a model that says `text`."""
    return fold(events_of(chat, outputs_of(TOKENIZER, [*TOKENIZER.encode(text), END_ID]))).choices[0]
