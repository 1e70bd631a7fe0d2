"""A model's chat template.

It is read and rendered by transformers, without torch. `render` may take long and is called on a worker thread.
"""

from __future__ import annotations

import logging
import re
from pathlib import Path
from typing import Any

import jinja2
import jinja2.meta
from transformers import PreTrainedTokenizerFast

from service.generation.errors import ModelLoadError, TemplateRefused

_log = logging.getLogger(__name__)


class NoChatTemplate(ModelLoadError):  # noqa: N818  a name says what happened
    """A model has no chat template."""


class ChatTemplate:
    """Renders conversations as the model was trained to read them."""

    def __init__(self, tokenizer: Any) -> None:
        """`tokenizer` is a transformers tokenizer. Raises NoChatTemplate, or ModelLoadError for a broken template."""
        template = tokenizer.chat_template
        if not template:
            raise NoChatTemplate("the model's folder has no chat template")
        self._tokenizer = tokenizer
        self.source: str = template if isinstance(template, str) else "\n".join(template.values())
        self.variables = _variables(self.source)

    @classmethod
    def from_folder(cls, folder: Path) -> ChatTemplate:
        """Read the template of a model's folder. Raises NoChatTemplate or ModelLoadError with the folder's name."""
        try:
            return cls(PreTrainedTokenizerFast.from_pretrained(folder, local_files_only=True))
        except NoChatTemplate as error:
            raise NoChatTemplate(f"{folder}: {error}") from error
        except (ModelLoadError, OSError, ValueError, KeyError) as error:
            raise ModelLoadError(f"{folder}: {error}") from error

    def render(
        self,
        messages: list[dict[str, Any]],
        tools: list[dict[str, Any]] | None,
        variables: dict[str, Any],
        *,
        field: str = "messages",
    ) -> str:
        """The prompt's text, up to where the assistant's answer begins.

        Raises TemplateRefused for `field`, with the template's own words if it refuses the conversation, and without if
        it breaks.
        """
        try:
            rendered: str = self._tokenizer.apply_chat_template(
                messages, tools=tools, tokenize=False, add_generation_prompt=True, **variables
            )
        except jinja2.TemplateError as error:
            raise TemplateRefused(field, str(error)) from error
        except Exception as error:
            _log.exception("the chat template broke")
            raise TemplateRefused(field, "the model's chat template breaks on this conversation") from error
        return rendered


def _variables(source: str) -> frozenset[str]:
    """The names that a template reads and doesn't define."""
    environment = jinja2.Environment(extensions=["jinja2.ext.loopcontrols"], autoescape=True)
    # A tag of transformers' own, which marks the assistant's turns for training.
    source = re.sub(r"{%-?\s*(end)?generation\s*-?%}", "", source)
    try:
        return frozenset(jinja2.meta.find_undeclared_variables(environment.parse(source)))
    except jinja2.TemplateSyntaxError as error:
        raise ModelLoadError(f"the chat template can't be read: {error}") from error
