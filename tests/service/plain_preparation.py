"""A preparation without templates, for tests of the surrounding layers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from service.generation.caller import ANONYMOUS, Caller
from service.generation.prompts.conversation import Conversation, Prompt, RawText
from service.generation.requests.answer_request import AnswerRequest
from service.prompting.preparation import Preparation, PreparedAnswer
from service.prompts.preparing.workers import WorkerLimits, Workers
from tests.engine.byte_tokenizer import ByteTokenizer


@dataclass
class PlainPreparation:
    """Prepares conversations as if they were raw prompts; requests without a seed get the seed 1.

    If `fail_with` is set, it is raised immediately; if `fail_after_leaving` is set, it is raised when the client has
    cancelled. `after_preparing` is called with the prepared request.
    """

    max_model_len: int = 128
    fail_with: Exception | None = None
    fail_after_leaving: Exception | None = None
    entered: asyncio.Event = field(default_factory=asyncio.Event)
    after_preparing: Callable[[], None] = lambda: None
    chat: None = None

    @property
    def sampling_defaults(self) -> dict[str, float]:
        return {}

    def __post_init__(self) -> None:
        self._workers = Workers(WorkerLimits())

    def close(self) -> None:
        self._workers.close()

    def with_adapter(self, name: str, adapter: str) -> PlainPreparation:
        return self

    async def prepare(
        self, request: AnswerRequest, request_id: str, deadline: float | None = None, caller: Caller = ANONYMOUS
    ) -> PreparedAnswer:
        self.entered.set()
        if self.fail_with is not None:
            raise self.fail_with
        if self.fail_after_leaving is not None:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                raise self.fail_after_leaving from None
        sampling = request.sampling if request.sampling.seed is not None else replace(request.sampling, seed=1)
        plain = replace(request, sampling=sampling, prompts=tuple(map(_as_text, request.prompts)))
        preparation = Preparation("plain", ByteTokenizer(), self.max_model_len, None, self._workers)
        prepared = await preparation.prepare(plain, request_id, deadline, caller)
        self.after_preparing()
        return prepared


def _as_text(prompt: Prompt) -> Prompt:
    if not isinstance(prompt, Conversation):
        return prompt
    return RawText("".join(message.text for message in prompt.messages), prompt.field)
