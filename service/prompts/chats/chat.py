"""From a conversation to a model's tokens.

It is called on worker threads, because rendering a template may take long, and is immutable after the start.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from service.engine.tokens.tokenizer import Tokenizer
from service.generation.errors import TemplateRejected, UnsupportedFeature, UnsupportedModality
from service.generation.formats.constraint import ReasoningMarkers
from service.generation.prompts.conversation import Conversation, ImagePart, Message
from service.generation.prompts.image import ImageForm
from service.prompts.chats.schema_text import add_schema
from service.prompts.templates.call_form import call_form
from service.prompts.templates.template import ChatTemplate
from service.prompts.templates.template_input import template_messages, template_tools, template_variables
from service.prompts.tokens.control_tokens import ControlTokens, Marks
from service.prompts.tokens.truncation import PromptBudget, fit_last_text, fit_messages

_PROBE = "system-message"
_LEFT_OUT = 4  # a prompt has at least one in this number of its conversation's characters


@dataclass(frozen=True, slots=True)
class RenderedPrompt:
    """A rendered conversation."""

    text: str
    token_ids: list[int]
    images: Sequence[ImagePart] = ()  # in the order of the prompt


class ChatPrompts:
    """Renders and encodes the conversations of one served model."""

    def __init__(
        self,
        template: ChatTemplate,
        tokenizer: Tokenizer,
        *,
        markers: ReasoningMarkers | None,
        default_system_prompt: str | None = None,
        image_form: ImageForm | None = None,
    ) -> None:
        """`image_form` is None for a model that takes no images."""
        self.control_tokens = ControlTokens(tokenizer, template.source)
        self._template = template
        self._tokenizer = tokenizer
        self._markers = markers
        self._default_system_prompt = default_system_prompt
        self._image_form = image_form
        self._call_form = call_form(template)

    @cached_property
    def _takes_system(self) -> bool:
        """True if the template shows a system message."""
        turns = [{"role": "system", "content": _PROBE}, {"role": "user", "content": ""}]
        try:
            return _PROBE in self._template.render(turns, None, {})
        except TemplateRejected:
            return False

    @property
    def takes_tools(self) -> bool:
        """True if the template shows tools."""
        return "tools" in self._template.variables

    def fit(
        self, conversation: Conversation, variables: dict[str, object], budget: PromptBudget, *, with_tools: bool
    ) -> RenderedPrompt:
        """Return the prompt of a conversation, truncated if necessary and allowed.

        `variables` are passed to the template in addition to the messages. Raise InvalidRequest, or a subclass of it,
        with the field's name, such as PromptTooLong.
        """
        # A text to be truncated is cut by its characters before it is tokenized.
        checked = None if conversation.cuts_text and budget.truncates else budget

        def render(messages: Sequence[Message]) -> RenderedPrompt:
            return self.render(conversation, variables, messages, with_tools=with_tools, budget=checked)

        if conversation.cuts_text:
            prompt = fit_last_text(conversation.messages, self._tokenizer, self.control_tokens, render, budget)
        else:
            prompt = fit_messages(conversation.messages, render, budget)
        budget.check(prompt.token_ids, conversation.field)
        return prompt

    def render(
        self,
        conversation: Conversation,
        variables: dict[str, object],
        messages: Sequence[Message] | None = None,
        *,
        with_tools: bool,
        budget: PromptBudget | None = None,
    ) -> RenderedPrompt:
        """Return the prompt of a conversation, or of `messages` in its place. Raise the same errors as `fit`.

        With `budget`, a text that is certainly too long is rejected before it is tokenized.
        """
        messages = conversation.messages if messages is None else messages
        if budget is not None:  # a template may omit some of the text, but hardly this much
            shown = replace(conversation, messages=messages, tools=conversation.tools if with_tools else ())
            budget.check_length(shown.num_characters // _LEFT_OUT, conversation.field)
        plain = template_messages(
            messages,
            default_system_prompt=self._default_system_prompt,
            markers=self._markers,
            form=self._call_form,
            takes_images=self._image_form is not None,
        )
        if conversation.schema is not None:
            add_schema(plain, conversation.schema, takes_system=self._takes_system)
        tools = template_tools(conversation.tools) if with_tools else None
        given_variables = template_variables(conversation.template_variables)
        marks = self.control_tokens.draw_marks([plain, tools, given_variables], conversation.field)
        marked = self.control_tokens.mark(plain, marks)
        variables = variables | {
            name: self.control_tokens.mark(value, marks) for name, value in given_variables.items()
        }
        if conversation.continues:
            marked[-1]["content"] += marks.end
        if conversation.continues or not conversation.opens_turn:
            variables = variables | {"add_generation_prompt": False}
        try:
            text = self._template.render(
                marked, self.control_tokens.mark(tools, marks), variables, field=conversation.field
            )
        except TemplateRejected as error:
            message = re.sub("|".join(marks), "", error.message)
            raise TemplateRejected(error.field, message) from error
        if conversation.continues:
            text, found, _ = text.rpartition(marks.end)
            if not found:
                message = "the model's chat template doesn't show the end of the last message"
                raise UnsupportedFeature("continue_final_message", message)
        if budget is not None:
            budget.check_length(len(text) - sum(map(text.count, marks)), conversation.field)
        images = [part for message in messages for part in message.images]
        if images and self._image_form is not None:
            text = _show_images(text, self._image_form, marks, images)
        return RenderedPrompt(text, self.control_tokens.encode(text, marks), images)


def _show_images(text: str, form: ImageForm, marks: Marks, images: Sequence[ImagePart]) -> str:
    """Return the rendered text with the form of an image where the template shows one; clients' spellings stay text."""
    shown, number = re.subn(f"(?<!{marks.open}){re.escape(form.marker)}", lambda _: form.text, text)
    if number != len(images):
        raise UnsupportedModality(images[0].field, f"the model's chat template shows {number} of {len(images)} images")
    return shown
