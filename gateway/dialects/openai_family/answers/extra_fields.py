"""Fields of an answer that are sent only if the request asks for them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ExtraFields:
    """The optional fields of an answer in OpenAI's family of dialects.

    `token_ids` are those of prompt and answer; `prompt_logprobs` exist in whole answers only. `echo` is the text that a
    chat's answers begin with. `reasoning_names` are the fields that carry a chat's reasoning; without any, it is left
    out.
    """

    token_ids: bool = False
    prompt_logprobs: bool = False
    echo: str = ""
    reasoning_names: tuple[str, ...] = ("reasoning_content",)
