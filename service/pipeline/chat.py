"""From chat requests to what the engine runs.

Owns one served model's template, tokenizer, parsers' choice and grammar compiler. Immutable after start. `prepare` is
called on the event loop; templates and grammars run on worker threads with a time limit each, never on the engine's.
Knows no gRPC: it takes and gives messages, and raises the engine's errors with paths of proto names.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable, Collection
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

from sluice.v1 import chat_pb2, tool_pb2

from service.engine.errors import DeadlineExceeded, InvalidRequest, PromptTooLong
from service.engine.tokenizer import Tokenizer
from service.engine.types import GenerationRequest
from service.pipeline.constraint import GrammarCompiler
from service.pipeline.control_tokens import ControlTokens
from service.pipeline.conversation import template_messages, template_tools
from service.pipeline.effort import Effort
from service.pipeline.errors import TemplateRefused, UnsupportedConstraint, UnsupportedFeature
from service.pipeline.grammar import Grammar, ToolRules, constraint_grammar, tool_grammar
from service.pipeline.parameters import resolve_sampling, resolve_stopping, to_engine_sampling, to_engine_stopping
from service.pipeline.prepared_chat import AnswerForm, PreparedChat
from service.pipeline.reasoning import ReasoningMarkers, Thinking, reasoning_markers
from service.pipeline.serving import resolve_serving
from service.pipeline.template import ChatTemplate
from service.pipeline.thinking import ReasoningBudgets, ThinkingTokens
from service.pipeline.tool_syntax import NAMED_ARGUMENTS, ToolSyntax, tool_syntax

_Result = TypeVar("_Result")


@dataclass(frozen=True, slots=True)
class PipelineLimits:
    """Seconds that one request may spend on the worker threads, and how many of these there are for each purpose."""

    max_render_s: float = 10.0
    max_compile_s: float = 5.0
    num_threads: int = 2


@dataclass(frozen=True, slots=True)
class _Draft:
    """What comes of a request before anything is compiled."""

    prompt_token_ids: list[int]
    thinking: Thinking
    grammar: Grammar | None


class ChatPipeline:
    """Prepares the chat requests of one served model."""

    def __init__(
        self,
        model: str,
        template: ChatTemplate,
        tokenizer: Tokenizer,
        max_model_len: int,
        eos_token_ids: Collection[int],
        *,
        default_system_prompt: str | None = None,
        markers: ReasoningMarkers | None = None,
        syntax: ToolSyntax | None = None,
        budgets: ReasoningBudgets | None = None,
        limits: PipelineLimits | None = None,
    ) -> None:
        """`markers` and `syntax` are read from the template where they are not given."""
        self.model = model
        self._template = template
        self._tokenizer = tokenizer
        self._max_model_len = max_model_len
        self._default_system_prompt = default_system_prompt
        self._limits = limits or PipelineLimits()
        self._markers = markers or reasoning_markers(template.source)
        self._syntax = syntax or tool_syntax(template.source)
        # Templates that look whether arguments are a string take them as they were written.
        self._parse_arguments = re.search(r"arguments\s+is\s+string", template.source) is None
        self._control_tokens = ControlTokens(tokenizer, template.source)
        thinking = ThinkingTokens(tokenizer, self._markers, eos_token_ids) if self._markers else None
        self._effort = Effort(template, self._markers, thinking, budgets or ReasoningBudgets())
        self._compiler = GrammarCompiler(tokenizer, self._control_tokens, eos_token_ids)
        self._renderers = ThreadPoolExecutor(self._limits.num_threads, thread_name_prefix="chat-template")
        self._compilers = ThreadPoolExecutor(self._limits.num_threads, thread_name_prefix="grammar")

    @property
    def supports_tools(self) -> bool:
        """Whether the template takes tools."""
        return "tools" in self._template.variables

    @property
    def supports_reasoning(self) -> bool:
        """Whether the template has a switch for thinking."""
        return self._markers is not None and self._effort.has_switch

    def close(self) -> None:
        """Stop the worker threads; no request may be prepared after."""
        self._renderers.shutdown(wait=False, cancel_futures=True)
        self._compilers.shutdown(wait=False, cancel_futures=True)

    async def prepare(
        self, request: chat_pb2.ChatRequest, request_id: str, deadline: float | None = None
    ) -> PreparedChat:
        """Make a validated request ready to run. `deadline` is a `time.monotonic()` instant in seconds.

        Raises InvalidRequest, or one of its subclasses in `pipeline.errors`, naming the field, PromptTooLong, and
        DeadlineExceeded.
        """
        serving = resolve_serving(request.serving, deadline)
        rules = self._tool_rules(request)
        draft = await self._run(
            self._renderers,
            lambda: self._draft(request, rules),
            self._limits.max_render_s,
            deadline,
            TemplateRefused("messages", f"the chat template ran longer than {self._limits.max_render_s:g} s"),
        )
        num_prompt_tokens = len(draft.prompt_token_ids)
        if num_prompt_tokens >= self._max_model_len:
            raise PromptTooLong("messages", num_prompt_tokens, self._max_model_len - 1)
        vocab_size = self._tokenizer.vocab_size
        sampling = resolve_sampling(request.sampling, vocab_size)
        stopping = resolve_stopping(
            request.stopping, vocab_size=vocab_size, max_new_tokens=self._max_model_len - num_prompt_tokens
        )
        answer = None
        if draft.grammar is not None:
            grammar = draft.grammar
            refusal = f"the constraint took longer than {self._limits.max_compile_s:g} s to compile"
            answer = await self._run(
                self._compilers,
                lambda: self._compiler.compile(grammar),
                self._limits.max_compile_s,
                deadline,
                UnsupportedConstraint(grammar.field, refusal),
            )
        generation = GenerationRequest(
            request_id=request_id,
            prompt_token_ids=draft.prompt_token_ids,
            sampling=to_engine_sampling(sampling),
            stopping=to_engine_stopping(stopping),
            n=request.n if request.HasField("n") else 1,
            logprobs=request.logprobs.top_logprobs if request.HasField("logprobs") else None,
            constraint=self._effort.constrain(request.reasoning_effort, draft.thinking, answer),
            deadline=serving.deadline,
            priority=serving.priority,
            cache_salt=serving.cache_salt,
            truncates_at_deadline=serving.truncates,
            skip_special_tokens=not self._shows_special_tokens(rules),
        )
        names = [function.name for _, function in rules.tools] if rules else []
        form = AnswerForm(self._markers, draft.thinking, rules.syntax if rules else None, names)
        return PreparedChat(generation, sampling, stopping, self._tokenizer, form)

    def _tool_rules(self, request: chat_pb2.ChatRequest) -> ToolRules | None:
        """What calls the request allows; None for none."""
        choice, mode = request.tool_choice, request.tool_choice.mode
        if not request.tools or mode == tool_pb2.TOOL_CHOICE_MODE_NONE:
            return None
        if not self.supports_tools:
            raise UnsupportedFeature("tools", "the model's chat template takes no tools")
        tools = [(index, tool.function) for index, tool in enumerate(request.tools)]
        named = choice.WhichOneof("choice") == "function_name"
        if named:
            tools = [(index, function) for index, function in tools if function.name == choice.function_name]
            if not tools:
                raise InvalidRequest("tool_choice.function_name", "names a function that is not in tools")
        return ToolRules(
            tools=tools,
            syntax=self._syntax,
            required=named or mode == tool_pb2.TOOL_CHOICE_MODE_REQUIRED,
            single=named or (request.HasField("parallel_tool_calls") and not request.parallel_tool_calls),
            field="tools",
        )

    def _draft(self, request: chat_pb2.ChatRequest, rules: ToolRules | None) -> _Draft:
        """On a worker thread: render and encode the prompt, and write the grammar."""
        messages = template_messages(
            request.messages,
            default_system_prompt=self._default_system_prompt,
            markers=self._markers,
            parse_arguments=self._parse_arguments,
        )
        tools = template_tools(request.tools) if rules else None
        marks = self._control_tokens.draw_marks([messages, tools])
        try:
            prompt = self._template.render(
                self._control_tokens.mark(messages, marks),
                self._control_tokens.mark(tools, marks),
                self._effort.variables(request.reasoning_effort),
            )
        except TemplateRefused as error:
            words = re.sub("|".join(marks), "", str(error))
            raise TemplateRefused(error.field, words) from error
        token_ids = self._control_tokens.encode(prompt, marks)
        return _Draft(token_ids, self._effort.thinking(prompt), self._grammar(request, rules))

    def _grammar(self, request: chat_pb2.ChatRequest, rules: ToolRules | None) -> Grammar | None:
        content = constraint_grammar(request.output_constraint) if request.HasField("output_constraint") else None
        if rules is None:
            return content
        strict = any(function.strict for _, function in rules.tools)
        if not (rules.required or rules.single or strict or content is not None):
            return None
        return tool_grammar(rules, self._control_tokens.ids, content)

    def _shows_special_tokens(self, rules: ToolRules | None) -> bool:
        """Whether the parsers look for markers that are special tokens, which the engine's text leaves out."""
        markers = [self._markers.open, self._markers.close] if self._markers else []
        if rules is not None:
            markers += [rules.syntax.begin, rules.syntax.end, NAMED_ARGUMENTS]
        return any(self._control_tokens.ids.get(marker) in self._tokenizer.special_token_ids for marker in markers)

    async def _run(
        self,
        pool: ThreadPoolExecutor,
        work: Callable[[], _Result],
        limit_s: float,
        deadline: float | None,
        too_long: InvalidRequest,
    ) -> _Result:
        """Do `work` on a thread of `pool`. A thread can't be stopped: past the limit it is left to itself."""
        room_s = limit_s if deadline is None else min(limit_s, deadline - time.monotonic())
        try:
            async with asyncio.timeout(room_s):
                return await asyncio.get_running_loop().run_in_executor(pool, work)
        except TimeoutError:
            if deadline is not None and time.monotonic() >= deadline:
                raise DeadlineExceeded("the deadline passed before the request was ready to run") from None
            raise too_long from None
