"""Encode the prompts of a request in the tokens of one served model.

Templates, tokenizers and grammar texts run on worker threads with a time limit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeVar

from service.constraints.grammar import format_grammar
from service.engine.tokens.tokenizer import Tokenizer
from service.generation.errors import InvalidRequest, TemplateRejected, UnsupportedFeature, UnsupportedTask
from service.generation.formats.constraint import Constraint
from service.generation.prompts.conversation import (
    MAX_CHARACTERS,
    Conversation,
    ImagePart,
    RawText,
    RawTokens,
    ReasoningEffort,
)
from service.generation.prompts.image import PromptImage
from service.generation.requests.answer_request import AnswerRequest
from service.images.positions import place_images
from service.output.answers.choice import AnswerForm
from service.prompting.chat_model import ChatModel
from service.prompts.preparing.workers import Workers
from service.prompts.tokens.detokenization import check_token
from service.prompts.tokens.truncation import PromptBudget, fit_text, fit_token_ids

if TYPE_CHECKING:  # few models take images, and the image reader takes long to import
    from service.images.reader import ImageReader

_Result = TypeVar("_Result")


@dataclass(frozen=True, slots=True)
class EncodedPrompt:
    """A prompt in the model's tokens, with the form and the constraint of its answers."""

    token_ids: Sequence[int]
    form: AnswerForm = AnswerForm(emits_every_token=True)  # noqa: RUF009  immutable; for a raw prompt
    constraint: Constraint | None = None
    shows_special_tokens: bool = False
    text: str = ""
    effort: ReasoningEffort | None = None
    images: Sequence[PromptImage] = ()


class PromptEncoder:
    """Encodes prompts for one served model, or for one of its adapters."""

    def __init__(
        self, model: str, tokenizer: Tokenizer, chat: ChatModel | None, workers: Workers, images: ImageReader | None
    ) -> None:
        """`model` is the name in errors. `chat` is None without a chat template, `images` if no images are taken."""
        self._model = model
        self._tokenizer = tokenizer
        self._chat = chat
        self._workers = workers
        self._images = images

    async def encode(self, request: AnswerRequest, budget: PromptBudget, deadline: float | None) -> list[EncodedPrompt]:
        """Return all prompts in order. Raw prompts are encoded as one task, each conversation as a separate task.

        Raise InvalidRequest, or a subclass of it, with the field's name, EngineOverloaded, or DeadlineExceeded.
        """
        limit_s = self._workers.limits.max_work_s
        raw = [prompt for prompt in request.prompts if not isinstance(prompt, Conversation)]
        encoded_raw: list[EncodedPrompt] = []
        if raw:
            too_long = InvalidRequest(request.prompts_field, f"took longer than {limit_s:g} s to encode")
            num_characters = sum(
                len(prompt.text if isinstance(prompt, RawText) else prompt.token_ids) for prompt in raw
            )
            encoded_raw = await self._workers.run(
                lambda: self._encode_raw(raw, request, budget), deadline, too_long, num_characters=num_characters
            )
        found = iter(encoded_raw)
        encoded = []
        for prompt in request.prompts:
            if isinstance(prompt, Conversation):
                encoded.append(await self._encode_conversation(prompt, request, budget, deadline))
            else:
                encoded.append(next(found))
        return encoded

    async def tokens(
        self, conversation: Conversation, deadline: float | None = None, workers: Workers | None = None
    ) -> Sequence[int]:
        """Return the tokens of a conversation's prompt, which may exceed the context. Raise the errors of `encode`.

        `workers` are the threads that render it, by default those of requests for answers.
        """
        chat = self._chat_for(conversation)
        self._check_images(conversation)
        prompt = await self._render(lambda: chat.render(conversation), conversation, deadline, workers)
        return prompt.token_ids

    def _encode_raw(
        self, prompts: Sequence[RawText | RawTokens], request: AnswerRequest, budget: PromptBudget
    ) -> list[EncodedPrompt]:
        """Return the encoded raw prompts. Call it on a worker thread."""
        constraint = Constraint(format_grammar(request.output_format)) if request.output_format is not None else None
        encoded = []
        for prompt in prompts:
            if isinstance(prompt, RawText):
                token_ids, text = fit_text(self._tokenizer, prompt.text, budget, prompt.field), prompt.text
            else:
                token_ids, text = self._fit_tokens(prompt, budget), ""
                if request.wants_prompt_texts:
                    text = self._tokenizer.decode(prompt.token_ids, skip_special_tokens=False)
            encoded.append(EncodedPrompt(token_ids, constraint=constraint, text=text))
        return encoded

    def _fit_tokens(self, prompt: RawTokens, budget: PromptBudget) -> list[int]:
        if max(prompt.token_ids) >= self._tokenizer.vocab_size:
            for index, token_id in enumerate(prompt.token_ids):
                check_token(token_id, f"{prompt.field}.token_ids.ids[{index}]", self._tokenizer.vocab_size)
        return fit_token_ids(prompt.token_ids, budget, prompt.field)

    async def _encode_conversation(
        self, prompt: Conversation, request: AnswerRequest, budget: PromptBudget, deadline: float | None
    ) -> EncodedPrompt:
        chat = self._chat_for(prompt)
        self._check_images(prompt)

        def encode() -> tuple[EncodedPrompt, Sequence[ImagePart]]:
            rendered = chat.fit(prompt, budget)
            content = format_grammar(request.output_format) if request.output_format is not None else None
            form, constraint = chat.reading(prompt, rendered, content)
            text = prompt.messages[-1].text if request.wants_prompt_texts else ""
            shows = chat.shows_special_tokens(form)
            encoded = EncodedPrompt(rendered.token_ids, form, constraint, shows, text, chat.effort(prompt))
            return encoded, rendered.images

        encoded, parts = await self._render(encode, prompt, deadline)
        if not parts or self._images is None:
            return encoded
        preprocessed = await self._images.read(parts, deadline)
        return replace(encoded, images=place_images(encoded.token_ids, preprocessed, self._images.form, parts[0].field))

    def _check_images(self, prompt: Conversation) -> None:
        """Raise InvalidRequest for too many images before any of them is read."""
        if self._images is not None:
            self._images.check_number([part for message in prompt.messages for part in message.images])

    async def _render(
        self,
        work: Callable[[], _Result],
        prompt: Conversation,
        deadline: float | None,
        workers: Workers | None = None,
    ) -> _Result:
        workers = workers or self._workers
        num_characters = prompt.num_characters
        if num_characters > MAX_CHARACTERS:
            message = f"has {num_characters} characters in all, with tools and calls; the limit is {MAX_CHARACTERS}"
            raise InvalidRequest(prompt.field, message)
        too_long = TemplateRejected(prompt.field, f"the chat template ran longer than {workers.limits.max_work_s:g} s")
        return await workers.run(work, deadline, too_long, num_characters=num_characters)

    def _chat_for(self, prompt: Conversation) -> ChatModel:
        if self._chat is not None:
            return self._chat
        if prompt.template_field == "model":
            raise UnsupportedTask(f"the model {self._model!r} has no chat template; it completes prompts only")
        raise UnsupportedFeature(prompt.template_field, "the model has no chat template; it takes raw prompts only")
