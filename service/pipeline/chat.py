"""From chat requests to what the engine runs.

Owns one served model's template, tokenizer, parsers' choice and grammar compiler. Immutable after start. `prepare` is
called on the event loop; templates and grammars run on worker threads with a time limit each, never on the engine's.
Knows no gRPC: it takes and gives messages, and raises the engine's errors with paths of proto names.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import TypeVar

from sluice.v1 import chat_pb2, content_pb2, tool_pb2

from service.engine.tokenizer import Tokenizer
from service.generation.errors import InvalidRequest, TemplateRefused, UnsupportedFeature
from service.generation.request import GenerationRequest
from service.pipeline.constraint import GrammarCompiler
from service.pipeline.control_tokens import ControlTokens
from service.pipeline.conversation import template_messages, template_tools
from service.pipeline.effort import Effort
from service.pipeline.grammar import Grammar, ToolRules, constraint_grammar, tool_grammar
from service.pipeline.parameters import resolve_sampling, resolve_stopping, to_engine_sampling, to_engine_stopping
from service.pipeline.prepared_chat import AnswerForm, PreparedChat
from service.pipeline.reasoning import ReasoningMarkers, Thinking, reasoning_markers
from service.pipeline.serving import resolve_serving
from service.pipeline.template import ChatTemplate
from service.pipeline.thinking import ReasoningBudgets, ThinkingTokens
from service.pipeline.tool_syntax import NAMED_ARGUMENTS, ToolSyntax, tool_syntax
from service.pipeline.truncation import PromptRoom, fit_last_text, fit_messages
from service.pipeline.workers import PipelineLimits, Workers

_Result = TypeVar("_Result")


@dataclass(frozen=True, slots=True)
class _Prompt:
    """A rendered conversation."""

    text: str
    token_ids: list[int]


@dataclass(frozen=True, slots=True)
class _Draft:
    """What comes of a request before anything is compiled."""

    prompt: _Prompt
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
        self._markers = markers or reasoning_markers(template.source)
        self._syntax = syntax or tool_syntax(template.source)
        # Templates that look whether arguments are a string take them as they were written.
        self._parse_arguments = re.search(r"arguments\s+is\s+string", template.source) is None
        self._control_tokens = ControlTokens(tokenizer, template.source)
        thinking = ThinkingTokens(tokenizer, self._markers, eos_token_ids) if self._markers else None
        self._effort = Effort(template, self._markers, thinking, budgets or ReasoningBudgets())
        self.compiler = GrammarCompiler(tokenizer, self._control_tokens, eos_token_ids)
        self.workers = Workers(limits or PipelineLimits())

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
        self.workers.close()

    async def prepare(
        self, request: chat_pb2.ChatRequest, request_id: str, deadline: float | None = None, *, cuts_text: bool = False
    ) -> PreparedChat:
        """Make a validated request ready to run. `deadline` is a `time.monotonic()` instant in seconds.

        Where the request truncates, its conversation loses its oldest messages, or, with `cuts_text`, its last message
        the beginning of its text. Raises InvalidRequest, or one of its subclasses in `pipeline.errors`, naming the
        field, PromptTooLong, and DeadlineExceeded.
        """
        serving = resolve_serving(request.serving, deadline)
        room = PromptRoom.of(self._max_model_len, request.stopping, truncates=serving.truncates)
        rules = self._tool_rules(request)
        draft = await self._render(lambda: self._draft(request, rules, room, cuts_text=cuts_text), deadline)
        num_prompt_tokens = len(draft.prompt.token_ids)
        vocab_size = self._tokenizer.vocab_size
        sampling = resolve_sampling(request.sampling, vocab_size)
        stopping = resolve_stopping(
            request.stopping, vocab_size=vocab_size, max_new_tokens=self._max_model_len - num_prompt_tokens
        )
        answer = None
        if draft.grammar is not None:
            grammar = draft.grammar
            answer = await self.workers.compile(lambda: self.compiler.compile(grammar), deadline, grammar.field)
        generation = GenerationRequest(
            request_id=request_id,
            prompt_token_ids=draft.prompt.token_ids,
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

    async def count(self, request: chat_pb2.ChatRequest, deadline: float | None = None) -> int:
        """How many tokens a validated request's prompt has, though they be too many. Raises as `prepare` does."""
        rules = self._tool_rules(request)
        prompt = await self._render(lambda: self._prompt(request, request.messages, rules), deadline)
        return len(prompt.token_ids)

    async def _render(self, work: Callable[[], _Result], deadline: float | None) -> _Result:
        limit_s = self.workers.limits.max_render_s
        refusal = TemplateRefused("messages", f"the chat template ran longer than {limit_s:g} s")
        return await self.workers.render(work, deadline, refusal)

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

    def _draft(
        self, request: chat_pb2.ChatRequest, rules: ToolRules | None, room: PromptRoom, *, cuts_text: bool
    ) -> _Draft:
        """On a worker thread: render and encode the prompt, cut it if need be, and write the grammar."""

        def render(messages: Sequence[content_pb2.Message]) -> _Prompt:
            return self._prompt(request, messages, rules)

        if cuts_text:
            prompt = fit_last_text(request.messages, self._tokenizer, self._control_tokens, render, room)
        else:
            prompt = fit_messages(request.messages, render, room)
        room.check(prompt.token_ids, "messages")
        return _Draft(prompt, self._effort.thinking(prompt.text), self._grammar(request, rules))

    def _prompt(
        self, request: chat_pb2.ChatRequest, messages: Sequence[content_pb2.Message], rules: ToolRules | None
    ) -> _Prompt:
        """On a worker thread: render and encode `messages` as if they were the request's."""
        plain = template_messages(
            messages,
            default_system_prompt=self._default_system_prompt,
            markers=self._markers,
            parse_arguments=self._parse_arguments,
        )
        tools = template_tools(request.tools) if rules else None
        marks = self._control_tokens.draw_marks([plain, tools])
        try:
            text = self._template.render(
                self._control_tokens.mark(plain, marks),
                self._control_tokens.mark(tools, marks),
                self._effort.variables(request.reasoning_effort),
            )
        except TemplateRefused as error:
            words = re.sub("|".join(marks), "", str(error))
            raise TemplateRefused(error.field, words) from error
        return _Prompt(text, self._control_tokens.encode(text, marks))

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
