"""The chat features of one served model: template, tool calls and reasoning.

It is called on worker threads and immutable after the start.
"""

from __future__ import annotations

from dataclasses import replace

from service.constraints.grammar import marked_content
from service.constraints.tool_grammar import opened_calls, tool_grammar
from service.constraints.tool_rules import ToolRules
from service.engine.tokens.tokenizer import Tokenizer
from service.generation.errors import InvalidRequest, UnsupportedFeature
from service.generation.formats.constraint import Constraint, Grammar, ReasoningMarkers, ReasoningStart
from service.generation.formats.json_text import parse_parameters
from service.generation.prompts.conversation import Conversation, ReasoningEffort, ToolMode
from service.generation.prompts.image import ImageForm
from service.output.answers.choice import AnswerForm
from service.output.families.object_calls import PLAIN_JSON
from service.output.families.reasoning_families import reasoning_markers
from service.output.families.tool_families import tool_syntax
from service.output.families.tool_syntax import ChannelCall, TemplatedCall, ToolSyntax
from service.prompts.chats.chat import ChatPrompts, RenderedPrompt
from service.prompts.chats.reasoning_effort import DefaultEffort, EffortRules, ReasoningBudgets
from service.prompts.templates.template import ChatTemplate
from service.prompts.templates.template_calls import confirmed_syntax, templated_syntax, warn_if_unparsed
from service.prompts.tokens.truncation import PromptBudget


class ChatModel:
    """Renders conversations as prompts, and defines how the answers are parsed and constrained."""

    def __init__(
        self,
        template: ChatTemplate,
        tokenizer: Tokenizer,
        *,
        default_system_prompt: str | None = None,
        markers: ReasoningMarkers | None = None,
        syntax: ToolSyntax | None = None,
        budgets: ReasoningBudgets | None = None,
        constrains_calls: bool = True,
        default_effort: DefaultEffort = None,
        shows_schema: bool = False,
        image_form: ImageForm | None = None,
    ) -> None:
        """`markers` and `syntax` are detected from the template or the tokenizer unless they are given.

        With `constrains_calls`, calls must match their schemas even if the request doesn't require it. `default_effort`
        applies to conversations without an effort. `shows_schema` adds the schema of the answer to the prompt.
        `image_form` is None for a model that takes no images.
        """
        self._markers = markers or reasoning_markers(template.source)
        self._prompts = ChatPrompts(
            template,
            tokenizer,
            markers=self._markers,
            default_system_prompt=default_system_prompt,
            image_form=image_form,
        )
        if syntax is None:
            found = tool_syntax(template.source, self._prompts.control_tokens.added)
            templated = templated_syntax(template) if found is PLAIN_JSON else None
            self._syntax = templated or confirmed_syntax(template, found)
        else:
            self._syntax = syntax
            warn_if_unparsed(template, syntax)
        self._effort = EffortRules(template, self._markers, budgets or ReasoningBudgets(), default_effort)
        self._shows_schema = shows_schema
        self._constrains_calls = constrains_calls
        self._special_token_ids = tokenizer.special_token_ids

    @property
    def control_token_ids(self) -> dict[str, int]:
        """The control tokens in the tokenizer that the template writes, by their text."""
        return self._prompts.control_tokens.ids

    @property
    def supports_tools(self) -> bool:
        """True if the template takes tools."""
        return self._prompts.takes_tools

    @property
    def supports_reasoning(self) -> bool:
        """True if the template has a switch for reasoning."""
        return self._markers is not None and self._effort.has_switch

    def fit(self, conversation: Conversation, budget: PromptBudget) -> RenderedPrompt:
        """Return the prompt of a conversation, truncated if necessary and allowed.

        Raise InvalidRequest, or a subclass of it with the field's name, such as PromptTooLong.
        """
        variables = self._effort.variables(self._effort.resolve(conversation))
        rules = self._tool_rules(conversation)
        return self._prompts.fit(self._shown(conversation, rules), variables, budget, with_tools=rules is not None)

    def render(self, conversation: Conversation) -> RenderedPrompt:
        """Return the prompt of a conversation of any length. Raise the same errors as `fit`."""
        variables = self._effort.variables(self._effort.resolve(conversation))
        rules = self._tool_rules(conversation)
        return self._prompts.render(self._shown(conversation, rules), variables, with_tools=rules is not None)

    def effort(self, conversation: Conversation) -> ReasoningEffort | None:
        """Return the effort in force; None if the model can't reason, or if its template decides."""
        return self._effort.resolve(conversation) if self._effort.can_reason else None

    def reading(
        self, conversation: Conversation, prompt: RenderedPrompt, content: Grammar | None
    ) -> tuple[AnswerForm, Constraint | None]:
        """Return how the answers to a prompt are parsed, and their constraint.

        `content` is the required grammar of an answer without calls. Raise InvalidRequest if a tool's parameters are
        not a schema.
        """
        rules = self._tool_rules(conversation)
        start = ReasoningStart.NONE if conversation.continues else self._effort.start(prompt.text)
        markers = self._markers
        if content is not None and markers is not None and markers.answer_open and not conversation.continues:
            content = marked_content(content, markers.answer_open, markers.answer_close, self.control_token_ids)
        grammar = self._grammar(rules, content)
        limit = self._effort.limit(
            self._effort.resolve(conversation),
            start,
            is_constrained=grammar is not None,
            budget=conversation.reasoning_budget,
        )
        form = self._form(conversation, rules, start)
        if isinstance(self._syntax.payload, TemplatedCall):
            form = replace(form, prompt=prompt.text)
        return form, Constraint(grammar, limit) if grammar or limit else None

    def _form(self, conversation: Conversation, rules: ToolRules | None, start: ReasoningStart) -> AnswerForm:
        """Return how the answers to a conversation are parsed."""
        # Channels and a tokenizer's response_template are parsed without tools, too.
        is_read = rules is not None or isinstance(self._syntax.payload, ChannelCall | TemplatedCall)
        functions = {
            function.name: parse_parameters(function.parameters, f"{function.field}.parameters")
            for function in (rules.functions if rules else ())
        }
        num_calls = sum(len(message.tool_calls) for message in conversation.messages)
        return AnswerForm(self._markers, start, self._syntax if is_read else None, functions, num_calls)

    def shows_special_tokens(self, form: AnswerForm) -> bool:
        """Return True if the parsers need markers that are special tokens, which the engine's text omits by default."""
        if form.syntax is not None and isinstance(form.syntax.payload, TemplatedCall):
            return True
        texts = [form.markers.open, form.markers.close, form.markers.answer_open] if form.markers else []
        if form.syntax is not None:
            texts += form.syntax.markers
        special = [text for text, token_id in self.control_token_ids.items() if token_id in self._special_token_ids]
        return any(token in text for text in texts for token in special)

    def _shown(self, conversation: Conversation, rules: ToolRules | None) -> Conversation:
        """Return the conversation for the prompt, without a schema that is not shown or doesn't apply to its text."""
        if self._shows_schema and not (rules is not None and rules.required):
            return conversation
        return replace(conversation, schema=None)

    def _tool_rules(self, conversation: Conversation) -> ToolRules | None:
        """Return the rules for calls; None if calls are not allowed."""
        choice = conversation.tool_choice
        if not conversation.tools or choice.mode is ToolMode.NONE:
            return None
        if not self.supports_tools:
            raise UnsupportedFeature("tools", "the model's chat template takes no tools")
        functions = conversation.tools
        if choice.name is not None:
            functions = [function for function in functions if function.name == choice.name]
            if not functions:
                raise InvalidRequest("tool_choice.function_name", "names a function that is not in tools")
        named = choice.name is not None
        return ToolRules(
            functions=functions,
            syntax=self._syntax,
            required=named or choice.mode is ToolMode.REQUIRED,
            single=named or not conversation.parallel_tool_calls,
            field="tools",
            enforces=self._constrains_calls,
        )

    def _grammar(self, rules: ToolRules | None, content: Grammar | None) -> Grammar | None:
        """Return the grammar of an answer with calls, content or both. Raise UnsupportedFeature."""
        if rules is None:
            return content
        if isinstance(rules.syntax.payload, TemplatedCall):
            if rules.required or any(function.strict for function in rules.functions):
                message = "the model's calls are parsed by its tokenizer's response_template, so they can't be enforced"
                raise UnsupportedFeature("tool_choice" if rules.required else "tools", message)
            return content
        if rules.required or content is not None:
            return tool_grammar(rules, self.control_token_ids, None if rules.required else content)
        if rules.enforces or rules.single or any(function.strict for function in rules.functions):
            return opened_calls(rules, self.control_token_ids)
        return None
