"""Check that the syntax of tool calls in a chat template is the syntax that the parser expects.

The template renders a conversation with a call, and the parser reads the rendered call.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Any

from service.generation.formats.constraint import ReasoningStart
from service.generation.outputs.events import ToolCall
from service.output.families.tool_families import SYNTAXES
from service.output.families.tool_syntax import ChannelCall, Schema, TemplatedCall, ToolSyntax
from service.output.parsers.channel_parser import ChannelParser
from service.output.parsers.templated_parser import check_response_template
from service.output.parsers.tool_parser import ToolCallParser
from service.prompts.templates.call_form import ARGUMENTS, PROBE, TOOL, USER_TURN, call_form
from service.prompts.templates.template import ChatTemplate

_FUNCTIONS: dict[str, Schema] = {PROBE: {"type": "object", "properties": {"word": {"type": "string"}}}}

_log = logging.getLogger(__name__)


def confirmed_syntax(template: ChatTemplate, found: ToolSyntax) -> ToolSyntax:
    """Return `found`, or the syntax of the calls that the template renders, if that is another one.

    `found` is also returned if the template renders no call or one of an unknown syntax.
    """
    if _shows(template, found) is not False:
        return found
    for syntax in _by_certainty(SYNTAXES.values()):
        if syntax is not found and _shows(template, syntax):
            fields = {"tool_syntax": syntax.name}
            _log.info("the tool syntax was detected from the chat template's own call", extra={"fields": fields})
            return syntax
    warn_if_unparsed(template, found)
    return found


def templated_syntax(template: ChatTemplate) -> ToolSyntax | None:
    """Return the syntax by the tokenizer's response_template; None if there is none or if it is invalid."""
    if template.response_template is None:
        return None
    try:
        check_response_template(template.response_template)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        fields = {"reason": str(error)}
        _log.warning("the tokenizer's response_template can't be used", extra={"fields": fields})
        return None
    return ToolSyntax("response-template", "by the tokenizer", TemplatedCall(template.response_template))


def warn_if_unparsed(template: ChatTemplate, syntax: ToolSyntax) -> None:
    """Log a warning if the template renders calls that the syntax doesn't read."""
    if _shows(template, syntax) is False:
        fields = {"tool_syntax": syntax.name}
        _log.warning("the chat template renders calls that the tool syntax doesn't read", extra={"fields": fields})


def _shows(template: ChatTemplate, syntax: ToolSyntax) -> bool | None:
    """Return True if the template's call is one of the syntax; None if it renders no call."""
    text = _shown_call(template, syntax)
    if text is None or PROBE not in text:
        return None
    is_channels = isinstance(syntax.payload, ChannelCall)
    parser = ChannelParser(_FUNCTIONS, ReasoningStart.MAY_OPEN) if is_channels else ToolCallParser(syntax, _FUNCTIONS)
    events = [*parser.feed(text), *parser.close()]
    arguments = "".join(getattr(event, "text", "") for event in events[_first_call(events) :])
    return any(isinstance(event, ToolCall) for event in events) and ARGUMENTS["word"] in arguments


def _first_call(events: list[Any]) -> int:
    return next((index for index, event in enumerate(events) if isinstance(event, ToolCall)), len(events))


def _shown_call(template: ChatTemplate, syntax: ToolSyntax) -> str | None:
    """Return the rendered call: the text after the user's message, or after the generation prompt if it is rendered."""
    turn = call_form(template).call_turn(syntax.call_id("0", PROBE))
    whole = template.try_render([USER_TURN, turn], [TOOL], {"add_generation_prompt": False})
    before = template.try_render([USER_TURN], [TOOL], {"add_generation_prompt": False})
    prompt = template.try_render([USER_TURN], [TOOL], {})
    for beginning in (prompt, None if syntax.bare else before):
        if whole is not None and beginning and whole.startswith(beginning):
            return whole.removeprefix(beginning)
    return None


def _by_certainty(syntaxes: Iterable[ToolSyntax]) -> list[ToolSyntax]:
    """Return the syntaxes with those that have markers first, because calls without markers may be anything."""
    return sorted(syntaxes, key=lambda syntax: syntax.bare)
