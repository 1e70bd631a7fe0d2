"""From completion requests to what the engine runs.

Owns the way of one served model's raw prompts to tokens; prompts that are put into the chat template are the chat
pipeline's. Immutable after start. `prepare` is called on the event loop; what takes long runs on worker threads. Knows
no gRPC: it takes and gives messages, and raises the engine's errors with paths of proto names.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from sluice.v1 import chat_pb2, completion_pb2, content_pb2, prompt_pb2, sampling_pb2

from service.engine.constraint_state import ConstraintState
from service.engine.tokenizer import Tokenizer
from service.generation.errors import InvalidRequest, UnsupportedFeature
from service.generation.request import GenerationRequest
from service.pipeline.chat import ChatPipeline
from service.pipeline.constraint import GrammarCompiler
from service.pipeline.control_tokens import ControlTokens
from service.pipeline.grammar import Grammar, constraint_grammar
from service.pipeline.parameters import (
    check_token,
    resolve_sampling,
    resolve_stopping,
    to_engine_sampling,
    to_engine_stopping,
    with_next_seed,
)
from service.pipeline.prepared_chat import AnswerForm, PreparedChat
from service.pipeline.prepared_completion import PreparedCompletion, PreparedPrompt
from service.pipeline.reasoning import Thinking
from service.pipeline.serving import Serving, resolve_serving
from service.pipeline.truncation import PromptRoom, fit_text, fit_token_ids
from service.pipeline.workers import PipelineLimits, Workers

_FREE_TEXT = AnswerForm(markers=None, thinking=Thinking.OFF, syntax=None, names=())


@dataclass(frozen=True, slots=True)
class _Draft:
    """What comes of a request's raw prompts before anything is compiled."""

    token_ids: dict[int, list[int]]  # by the prompt's index
    texts: list[str]  # of all prompts, for an echo; empty without
    grammar: Grammar | None


class CompletionPipeline:
    """Prepares the completion requests of one served model."""

    def __init__(
        self, tokenizer: Tokenizer, max_model_len: int, eos_token_ids: Collection[int], chat: ChatPipeline | None
    ) -> None:
        """`chat` is the same model's, whose threads and grammars it shares; None without a chat template."""
        self._tokenizer = tokenizer
        self._max_model_len = max_model_len
        self._chat = chat
        self.workers = chat.workers if chat else Workers(PipelineLimits())
        self._compiler = (
            chat.compiler if chat else GrammarCompiler(tokenizer, ControlTokens(tokenizer, ""), eos_token_ids)
        )

    def close(self) -> None:
        """Stop the worker threads; no request may be prepared after."""
        self.workers.close()

    async def prepare(
        self, request: completion_pb2.CompleteRequest, request_id: str, deadline: float | None = None
    ) -> PreparedCompletion:
        """Make a validated request ready to run. `deadline` is a `time.monotonic()` instant in seconds.

        A prompt in the chat template is answered as a chat is, and of the answer only the content counts. Raises
        InvalidRequest, or one of its subclasses in `pipeline.errors`, naming the field, PromptTooLong, and
        DeadlineExceeded.
        """
        serving = resolve_serving(request.serving, deadline)
        is_raw = not request.HasField("use_raw_prompt") or request.use_raw_prompt
        sampling = resolve_sampling(request.sampling, self._tokenizer.vocab_size)
        room = PromptRoom.of(self._max_model_len, request.stopping, truncates=serving.truncates)
        limit_s = self.workers.limits.max_render_s
        draft = await self.workers.render(
            lambda: self._draft(request, room, is_raw=is_raw),
            deadline,
            InvalidRequest("prompts", f"the prompts took longer than {limit_s:g} s to encode"),
        )
        constraint = await self._constraint(draft.grammar, deadline) if draft.token_ids else None
        prompts = []
        for index in range(len(request.prompts)):
            if index > 0 and not request.sampling.HasField("seed"):
                sampling = with_next_seed(sampling)
            if index in draft.token_ids:
                chat = self._raw(
                    request,
                    draft.token_ids[index],
                    sampling=sampling,
                    constraint=constraint,
                    serving=serving,
                    request_id=request_id,
                )
            else:
                chat = await self._templated(
                    request, index, sampling=sampling, request_id=request_id, deadline=deadline
                )
            prompts.append(PreparedPrompt(chat, draft.texts[index] if request.echo else ""))
        return PreparedCompletion(
            prompts,
            self._tokenizer,
            suffix=request.suffix,
            prompt_logprobs=request.logprobs if request.echo and request.HasField("logprobs") else None,
        )

    def _draft(self, request: completion_pb2.CompleteRequest, room: PromptRoom, *, is_raw: bool) -> _Draft:
        """On a worker thread: check and encode the raw prompts, and write the grammar."""
        token_ids: dict[int, list[int]] = {}
        texts: list[str] = []
        for index, prompt in enumerate(request.prompts):
            field = f"prompts[{index}]"
            if prompt.HasField("token_ids"):
                self._check(prompt.token_ids.ids, field)
                token_ids[index] = fit_token_ids(prompt.token_ids.ids, room, field)
            elif is_raw:
                token_ids[index] = fit_text(self._tokenizer, prompt.text, room, field)
            if request.echo:
                texts.append(self._text(prompt))
        has_grammar = request.HasField("output_constraint") and token_ids
        return _Draft(token_ids, texts, constraint_grammar(request.output_constraint) if has_grammar else None)

    def _check(self, token_ids: Collection[int], field: str) -> None:
        vocab_size = self._tokenizer.vocab_size
        if max(token_ids) >= vocab_size:
            for index, token_id in enumerate(token_ids):
                check_token(token_id, f"{field}.token_ids.ids[{index}]", vocab_size)

    def _text(self, prompt: prompt_pb2.Prompt) -> str:
        if prompt.HasField("token_ids"):
            return self._tokenizer.decode(prompt.token_ids.ids, skip_special_tokens=False)
        return prompt.text

    async def _constraint(self, grammar: Grammar | None, deadline: float | None) -> ConstraintState | None:
        if grammar is None:
            return None
        return await self.workers.compile(lambda: self._compiler.compile(grammar), deadline, grammar.field)

    def _raw(
        self,
        request: completion_pb2.CompleteRequest,
        token_ids: list[int],
        *,
        sampling: sampling_pb2.SamplingParams,
        constraint: ConstraintState | None,
        serving: Serving,
        request_id: str,
    ) -> PreparedChat:
        stopping = resolve_stopping(
            request.stopping,
            vocab_size=self._tokenizer.vocab_size,
            max_new_tokens=self._max_model_len - len(token_ids),
        )
        generation = GenerationRequest(
            request_id=request_id,
            prompt_token_ids=token_ids,
            sampling=to_engine_sampling(sampling),
            stopping=to_engine_stopping(stopping),
            n=request.n if request.HasField("n") else 1,
            logprobs=request.logprobs.top_logprobs if request.HasField("logprobs") else None,
            constraint=constraint,
            deadline=serving.deadline,
            priority=serving.priority,
            cache_salt=serving.cache_salt,
            truncates_at_deadline=serving.truncates,
        )
        return PreparedChat(generation, sampling, stopping, self._tokenizer, _FREE_TEXT)

    async def _templated(
        self,
        request: completion_pb2.CompleteRequest,
        index: int,
        *,
        sampling: sampling_pb2.SamplingParams,
        request_id: str,
        deadline: float | None,
    ) -> PreparedChat:
        if self._chat is None:
            raise UnsupportedFeature("use_raw_prompt", "the model has no chat template; it takes raw prompts only")
        part = content_pb2.ContentPart(text=request.prompts[index].text)
        chat = chat_pb2.ChatRequest(
            model=request.model,
            messages=[content_pb2.Message(role=content_pb2.ROLE_USER, content=[part])],
            sampling=sampling,
            stopping=request.stopping,
            n=request.n if request.HasField("n") else None,
            logprobs=request.logprobs if request.HasField("logprobs") else None,
            output_constraint=request.output_constraint if request.HasField("output_constraint") else None,
            serving=request.serving,
        )
        try:
            return await self._chat.prepare(chat, request_id, deadline, cuts_text=True)
        except InvalidRequest as error:
            if error.field.startswith("messages"):
                error.field = f"prompts[{index}]"
            raise
