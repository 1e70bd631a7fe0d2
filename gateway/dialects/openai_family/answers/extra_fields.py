"""Fields of an answer that are sent only if the request asks for them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ExtraFields:
    """The optional fields of an answer in OpenAI's family of dialects.

    `token_ids` includes the ids of prompt and answer; `prompt_logprobs` exist in whole answers only. `echo` is the text
    at the start of a chat's answers. `reasoning_names` are the fields that contain a chat's reasoning; if empty, it is
    omitted.
    """

    token_ids: bool = False
    prompt_logprobs: bool = False
    echo: str = ""
    reasoning_names: tuple[str, ...] = ("reasoning_content",)
