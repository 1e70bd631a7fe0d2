"""A model's chat template.

Its folder's files are read as transformers reads them, without the import of transformers, which takes a second. It is
rendered in a sandbox, because a template is a program from the model's authors. `render` may take long: call it on a
worker thread.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

import jinja2
import jinja2.meta
from jinja2 import nodes
from jinja2.ext import Extension
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment

from service.generation.errors import ModelLoadError, TemplateRejected

_DEFAULT, _TOOL_USE = "default", "tool_use"  # the names of templates if a model has several
_TOKENS = ("bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token")

_log = logging.getLogger(__name__)


class NoChatTemplate(ModelLoadError):  # noqa: N818  the name states the condition
    """A model has no chat template."""


class _GenerationTag(Extension):
    """`{% generation %}`, a tag of transformers that marks the assistant's turns for training."""

    tags = {"generation"}  # noqa: RUF012  as jinja declares it

    def parse(self, parser: Parser) -> nodes.Node:
        line = next(parser.stream).lineno
        return nodes.Scope(parser.parse_statements(("name:endgeneration",), drop_needle=True), lineno=line)


class ChatTemplate:
    """Renders conversations in the form that the model was trained on."""

    def __init__(
        self,
        sources: Mapping[str, str],
        special_tokens: Mapping[str, str],
        response_template: Mapping[str, Any] | None = None,
    ) -> None:
        """`sources` are templates by name, `special_tokens` are variables that each of them gets.

        `response_template` defines how transformers parses the model's answers, if the tokenizer has one.
        Raise NoChatTemplate, or ModelLoadError for an invalid template.
        """
        if not sources:
            raise NoChatTemplate("the model's folder has no chat template")
        if _DEFAULT not in sources:
            raise ModelLoadError(f"none of the chat templates {', '.join(sources)} is named {_DEFAULT}")
        self.source = "\n".join(sources.values())
        environment = _environment()
        try:
            self._templates = {name: environment.from_string(source) for name, source in sources.items()}
            self.variables = frozenset(jinja2.meta.find_undeclared_variables(environment.parse(self.source)))
        except jinja2.TemplateSyntaxError as error:
            raise ModelLoadError(f"the chat template can't be read: {error}") from error
        self._special_tokens = dict(special_tokens)
        self.response_template = response_template

    @classmethod
    def from_folder(cls, folder: Path) -> ChatTemplate:
        """Return the template of a model's folder. Raise NoChatTemplate or ModelLoadError with the folder's name."""
        if not folder.is_dir():
            raise ModelLoadError(f"the model folder {folder} does not exist")
        try:
            config = _read_json(folder / "tokenizer_config.json")
            tokens = _tokens(_read_json(folder / "special_tokens_map.json")) | _tokens(config)
            response_template = config.get("response_template")
            return cls(
                _sources(folder, config), tokens, response_template if isinstance(response_template, dict) else None
            )
        except NoChatTemplate as error:
            raise NoChatTemplate(f"{folder}: {error}") from error
        except (ModelLoadError, OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise ModelLoadError(f"{folder}: {error}") from error

    def render(
        self,
        messages: list[dict[str, Any]],
        tools: list[dict[str, Any]] | None,
        variables: dict[str, Any],
        *,
        field: str = "messages",
    ) -> str:
        """Return the prompt's text, up to the beginning of the assistant's answer.

        Raise TemplateRejected for `field`: with the template's own message if it rejects the conversation, or with a
        general one if it fails.
        """
        try:
            return self._rendered(messages, tools, variables)
        except jinja2.TemplateError as error:
            raise TemplateRejected(field, str(error)) from error
        except Exception as error:
            _log.exception("the chat template failed")
            raise TemplateRejected(field, "the model's chat template fails on this conversation") from error

    def try_render(
        self, messages: list[dict[str, Any]], tools: list[dict[str, Any]] | None, variables: dict[str, Any]
    ) -> str | None:
        """Return the rendered text of a probe conversation; None if the template rejects it or fails."""
        try:
            return self._rendered(messages, tools, variables)
        except Exception:  # noqa: BLE001  a template may raise anything
            return None

    def _rendered(
        self, messages: list[dict[str, Any]], tools: list[dict[str, Any]] | None, variables: dict[str, Any]
    ) -> str:
        """Return the prompt of a conversation. Raise jinja2's errors."""
        template = self._templates[_TOOL_USE if tools and _TOOL_USE in self._templates else _DEFAULT]
        known = {**self._special_tokens, "documents": None, "add_generation_prompt": True, **variables}
        return template.render(known, messages=messages, tools=tools)


def _environment() -> ImmutableSandboxedEnvironment:
    """Return the environment that templates expect: transformers' settings of jinja, filter and functions."""
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[_GenerationTag, "jinja2.ext.loopcontrols"]
    )
    environment.filters["tojson"] = _to_json
    environment.globals["raise_exception"] = _raise_exception
    environment.globals["strftime_now"] = lambda form: datetime.now().strftime(form)  # noqa: DTZ005  local time
    return environment


def _raise_exception(message: str) -> None:
    """Raise the error that a template raises for a conversation."""
    raise jinja2.TemplateError(message)


def _to_json(value: Any, *, ensure_ascii: bool = False, **options: Any) -> str:
    """Return JSON for a template, by default with characters beyond ASCII as they are."""
    return json.dumps(value, ensure_ascii=ensure_ascii, **options)


def _sources(folder: Path, config: dict[str, Any]) -> dict[str, str]:
    """Return the texts of a folder's templates by name. Raise OSError."""
    files = {file.stem: file for file in sorted(folder.glob("additional_chat_templates/*.jinja"))}
    if (folder / "chat_template.jinja").is_file():
        files[_DEFAULT] = folder / "chat_template.jinja"
    if files:
        return {name: file.read_text(encoding="utf-8") for name, file in files.items()}
    given = config.get("chat_template") or {}
    if isinstance(given, str):
        return {_DEFAULT: given}
    return {each["name"]: each["template"] for each in given}


def _tokens(config: dict[str, Any]) -> dict[str, str]:
    """Return the texts of the named special tokens, which files contain as texts or as objects."""
    given = {name: config.get(name) for name in _TOKENS}
    texts = {name: token.get("content") if isinstance(token, dict) else token for name, token in given.items()}
    return {name: text for name, text in texts.items() if text is not None}


def _read_json(file: Path) -> dict[str, Any]:
    """Return the object in a file; an empty one if the file doesn't exist."""
    if not file.is_file():
        return {}
    value = json.loads(file.read_text(encoding="utf-8"))
    if not isinstance(value, dict):
        raise ModelLoadError(f"{file.name} is not a JSON object")
    return value
