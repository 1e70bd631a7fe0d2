"""A model's chat template.

Its folder's files are read as transformers reads them, whose import takes a second, and rendered in a sandbox: a
template is a program of whoever made the model. `render` may take long and is called on a worker thread.
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

from service.generation.errors import ModelLoadError, TemplateRefused

_DEFAULT, _TOOL_USE = "default", "tool_use"  # names of templates, where a model has several
_TOKENS = ("bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token")

_log = logging.getLogger(__name__)


class NoChatTemplate(ModelLoadError):  # noqa: N818  a name says what happened
    """A model has no chat template."""


class _GenerationTag(Extension):
    """`{% generation %}`, a tag of transformers' own that marks the assistant's turns for training."""

    tags = {"generation"}  # noqa: RUF012  as jinja declares it

    def parse(self, parser: Parser) -> nodes.Node:
        line = next(parser.stream).lineno
        return nodes.Scope(parser.parse_statements(("name:endgeneration",), drop_needle=True), lineno=line)


class ChatTemplate:
    """Renders conversations as the model was trained to read them."""

    def __init__(
        self,
        sources: Mapping[str, str],
        special_tokens: Mapping[str, str],
        response_template: Mapping[str, Any] | None = None,
    ) -> None:
        """`sources` are templates by name, `special_tokens` what each finds beside a request's variables.

        `response_template` is how transformers reads the model's answers, where its tokenizer says so.
        Raises NoChatTemplate, or ModelLoadError for a broken template.
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
        """Read the template of a model's folder. Raises NoChatTemplate or ModelLoadError with the folder's name."""
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
        """The prompt's text, up to where the assistant's answer begins.

        Raises TemplateRefused for `field`, with the template's own words if it refuses the conversation, and without if
        it breaks.
        """
        try:
            return self._rendered(messages, tools, variables)
        except jinja2.TemplateError as error:
            raise TemplateRefused(field, str(error)) from error
        except Exception as error:
            _log.exception("the chat template broke")
            raise TemplateRefused(field, "the model's chat template breaks on this conversation") from error

    def try_render(
        self, messages: list[dict[str, Any]], tools: list[dict[str, Any]] | None, variables: dict[str, Any]
    ) -> str | None:
        """What the template makes of a conversation that nobody has; None if it refuses it or breaks."""
        try:
            return self._rendered(messages, tools, variables)
        except Exception:  # noqa: BLE001  a template may do anything
            return None

    def _rendered(
        self, messages: list[dict[str, Any]], tools: list[dict[str, Any]] | None, variables: dict[str, Any]
    ) -> str:
        template = self._templates[_TOOL_USE if tools and _TOOL_USE in self._templates else _DEFAULT]
        known = {**self._special_tokens, "documents": None, "add_generation_prompt": True, **variables}
        return template.render(known, messages=messages, tools=tools)


def _environment() -> ImmutableSandboxedEnvironment:
    """What templates are written for: transformers' settings of jinja, filter and functions."""
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[_GenerationTag, "jinja2.ext.loopcontrols"]
    )
    environment.filters["tojson"] = _to_json
    environment.globals["raise_exception"] = _refuse
    environment.globals["strftime_now"] = lambda wanted: datetime.now().strftime(wanted)  # noqa: DTZ005  local time
    return environment


def _refuse(message: str) -> None:
    raise jinja2.TemplateError(message)


def _to_json(value: Any, *, ensure_ascii: bool = False, **options: Any) -> str:
    return json.dumps(value, ensure_ascii=ensure_ascii, **options)


def _sources(folder: Path, config: dict[str, Any]) -> dict[str, str]:
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
    """The texts of the named special tokens, which files give as texts or as objects."""
    given = {name: config.get(name) for name in _TOKENS}
    texts = {name: token.get("content") if isinstance(token, dict) else token for name, token in given.items()}
    return {name: text for name, text in texts.items() if text is not None}


def _read_json(file: Path) -> dict[str, Any]:
    """Empty if there is no such file."""
    if not file.is_file():
        return {}
    value = json.loads(file.read_text(encoding="utf-8"))
    if not isinstance(value, dict):
        raise ModelLoadError(f"{file.name} is not a JSON object")
    return value
