"""Responses of the OpenAI style. docs/api/responses.md has the table of their fields."""

from __future__ import annotations

from gateway.dialects.openai.error import OpenAIErrors
from gateway.dialects.openai_family.responses.follow import FollowParser
from gateway.dialects.openai_family.responses.reader import ResponseReader


class OpenAIResponseTranslator(OpenAIErrors, ResponseReader):
    """Translates one request for a response."""


class OpenAIFollowTranslator(OpenAIErrors, FollowParser):
    """Translates one request for the events of a response in the background."""
