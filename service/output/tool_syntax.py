"""How each model family writes tool calls.

A syntax is chosen by a chat template's own markers, or by setting.
"""

from __future__ import annotations

import hashlib
import string
from dataclasses import dataclass

NAMED_ARGUMENTS = "[ARGS]"  # between the name and the arguments of a named call
# A bare answer that can't but be a call any more, or isn't one for the parser either; a regular expression that takes
# what follows, too. JSON with other first members is left to be content.
BARE_LEAD = (
    r'[ \t\r\n]*(\[[ \t\r\n]*)?\{[ \t\r\n]*("(id|type)"[ \t\r\n]*:[ \t\r\n]*"[^"\\]*"[ \t\r\n]*,[ \t\r\n]*){0,2}'
    r'"(name|arguments|parameters)"(.|\n)*'
)
_ALPHANUMERIC = string.ascii_letters + string.digits


@dataclass(frozen=True, slots=True)
class ToolSyntax:
    """One family's way to write calls, for the parser that reads them and the grammar that enforces them.

    `begin` and `end` stand around a call, or around a list of calls; empty where the family has none. A `bare` syntax
    takes calls without `begin` too, but only where the answer starts. A `named` syntax writes a name and then the
    arguments, without an object around them. The rest is how the family itself spaces what it writes.
    """

    name: str
    begin: str = ""
    end: str = ""
    bare: bool = False
    named: bool = False
    separators: str = ""  # what may stand between bare calls, beside white space
    arguments_key: str = "arguments"
    before_call: str = ""
    after_call: str = ""
    between_calls: str = ""
    begins_each_call: bool = True  # whether `begin` and `end` stand around each call or around all of them
    id_prefix: str = "call_"
    id_length: int = 24

    def call_id(self, place: str) -> str:
        """The id of the call at a place that no other call has, in the form that the family's templates take back."""
        digest = hashlib.blake2b(place.encode(), digest_size=self.id_length).digest()
        return self.id_prefix + "".join(_ALPHANUMERIC[byte % len(_ALPHANUMERIC)] for byte in digest)


HERMES = ToolSyntax(
    "hermes",
    begin="<tool_call>",
    end="</tool_call>",
    before_call="\n",
    after_call="\n",
    between_calls="\n",
)
LLAMA3 = ToolSyntax(
    "llama3",
    begin="<|python_tag|>",
    bare=True,
    separators=";",
    arguments_key="parameters",
    between_calls="; ",
)
# Mistral's templates refuse call ids of any other form.
MISTRAL = ToolSyntax(
    "mistral",
    begin="[TOOL_CALLS]",
    before_call="[",
    after_call="]",
    between_calls=", ",
    begins_each_call=False,
    id_prefix="",
    id_length=9,
)
MISTRAL_NAMED = ToolSyntax(
    "mistral-named",
    begin="[TOOL_CALLS]",
    named=True,
    id_prefix="",
    id_length=9,
)
PLAIN_JSON = ToolSyntax("json", bare=True, separators=";,", between_calls="\n")

SYNTAXES = {syntax.name: syntax for syntax in (HERMES, LLAMA3, MISTRAL, MISTRAL_NAMED, PLAIN_JSON)}


def tool_syntax(template: str) -> ToolSyntax:
    """The syntax that a chat template's source shows its model to use; plain JSON if it shows none."""
    if HERMES.begin in template:
        return HERMES
    if MISTRAL.begin in template:
        return MISTRAL_NAMED if NAMED_ARGUMENTS in template else MISTRAL
    if LLAMA3.begin in template or '"parameters": ' in template:
        return LLAMA3
    return PLAIN_JSON
