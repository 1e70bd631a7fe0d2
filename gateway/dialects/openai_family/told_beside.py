"""What an answer tells that only some callers ask for."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ToldBeside:
    """Beside what every answer of OpenAI's family has.

    `token_ids` are those of prompt and answer, `prompt_logprobs` of whole answers only. `echo` is a text that a chat's
    answers begin with. `reasoning_names` are the fields that have a chat's reasoning; none leaves it out.
    """

    token_ids: bool = False
    prompt_logprobs: bool = False
    echo: str = ""
    reasoning_names: tuple[str, ...] = ("reasoning_content",)
