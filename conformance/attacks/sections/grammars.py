"""Schemas, patterns and grammars that take exponential time or memory to compile."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from conformance.attacks.target import Target, handled
from conformance.claim import Claim, claims_into, hold

ATTACKS: list[Claim[Target]] = []
attack = claims_into(ATTACKS)
CWE = "CWE-1333"


def _format(schema: Any) -> dict[str, Any]:
    return {"type": "json_schema", "json_schema": {"name": "a", "schema": schema}}


def _property(**fields: Any) -> dict[str, Any]:
    return {"type": "object", "properties": {"a": fields}, "required": ["a"], "additionalProperties": False}


def _nested(depth: int) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "string"}
    for _ in range(depth):
        schema = {"type": "object", "properties": {"a": schema}, "required": ["a"]}
    return schema


def _branches(depth: int) -> dict[str, Any]:
    """Return a schema whose alternatives double at each level."""
    definitions: dict[str, Any] = {"a0": {"type": "integer"}}
    for each in range(depth):
        below = {"$ref": f"#/$defs/a{each}"}
        definitions[f"a{each + 1}"] = {"anyOf": [_property(**below), {"type": "array", "items": below}]}
    return {"$defs": definitions, "$ref": f"#/$defs/a{depth}"}


def _schema(*schemas: Any) -> Callable[[Target], str]:
    return lambda target: ", ".join(handled(target.user("Hello", response_format=_format(each))) for each in schemas)


PATTERNS = [r"^(a+)+$", r"^(a|a)*b$", r"^(([a-z])+.)+[A-Z]([a-z])+$", r"^(.*a){20}$"]
for name, text, schemas in (
    (
        "backtracking",
        "Patterns that backtrack exponentially",
        [_property(type="string", pattern=each) for each in PATTERNS],
    ),
    (
        "repetition",
        "A pattern that repeats a million times",
        [_property(type="string", pattern="^(a{0,1000}){0,1000}$")],
    ),
    (
        "classes",
        "A pattern of wide Unicode classes",
        [_property(type="string", pattern=r"^[^\u0000-\U0010ffff]{1,50}$")],
    ),
    (
        "lookaround",
        "Patterns with back references and lookahead",
        [_property(type="string", pattern=each) for each in (r"^(a)\1$", r"^(?=a)b$", r"^(?<!a)b$")],
    ),
    (
        "invalid",
        "Invalid patterns",
        [_property(type="string", pattern=each) for each in ("(", "[", "*", "a{5,2}", "\\")],
    ),
    (
        "cycle",
        "A schema that refers to itself only",
        [{"$ref": "#"}, {"$defs": {"a": {"$ref": "#/$defs/a"}}, "$ref": "#/$defs/a"}],
    ),
    (
        "recursion",
        "A schema that requires itself without end",
        [{"type": "object", "properties": {"a": {"$ref": "#"}}, "required": ["a"]}],
    ),
    ("depth", "A schema of 200 levels", [_nested(200)]),
    ("branches", "A schema whose alternatives double at each of 24 levels", [_branches(24)]),
    ("enum", "A schema with 50,000 values", [_property(enum=[f"value {each}" for each in range(50_000)])]),
    (
        "wide",
        "A schema with 5,000 optional fields",
        [{"type": "object", "properties": {f"a{each}": {"type": "string"} for each in range(5000)}}],
    ),
    (
        "length",
        "Strings and lists of at least a billion items",
        [_property(type="string", minLength=10**9), _property(type="array", items={"type": "integer"}, minItems=10**9)],
    ),
    (
        "numbers",
        "Limits of numbers beyond any float",
        [_property(type="integer", minimum=10**400), _property(type="number", multipleOf=1e-300)],
    ),
    (
        "all_of",
        "Alternatives that exclude each other",
        [{"allOf": [{"type": "string"}, {"type": "integer"}]}, {"not": {}}, False],
    ),
    (
        "file",
        "A reference to a file of the server",
        [_property(**{"$ref": "file:///etc/passwd"}), _property(**{"$ref": "../../etc/passwd"})],
    ),
    (
        "nonsense",
        "Schemas of other types",
        [1, [], "a", {"type": 5}, {"properties": [1]}, {"enum": {}}, {"required": "a"}, {"type": ["a", {}]}],
    ),
):
    attack(f"grammars.{name}", f"{text} in an answer's schema: rejected or answered in time", CWE)(_schema(*schemas))


@attack("grammars.tools", "The same schemas as a tool's parameters: rejected or answered in time", CWE)
def _(target: Target) -> str:
    schemas = (_property(type="string", pattern=PATTERNS[0]), {"$ref": "#"}, _branches(24), _nested(200), {"type": 5})
    functions = [{"name": "f", "strict": True, "parameters": schema} for schema in schemas]
    answers = [target.user("Hello", tools=[{"type": "function", "function": each}]) for each in functions]
    return ", ".join(map(handled, answers))


@attack("grammars.text", "Left-recursive, ambiguous and unfinished grammars: rejected or answered in time", CWE)
def _(target: Target) -> str:
    grammars = ('root ::= root "a" | "a"', "root ::= a\na ::= b\nb ::= a", "root ::= (", 'root ::= ((("a"*)*)*)*')
    names = ("grammar", "guided_grammar", "ebnf")
    answers = [target.user("Hello", **{name: text}) for name in names for text in grammars]
    return ", ".join(sorted(set(map(handled, answers))))


@attack("grammars.regex", "Patterns for a whole answer that backtrack: rejected or answered in time", CWE)
def _(target: Target) -> str:
    answers = [target.user("Hello", **{name: text}) for name in ("guided_regex", "regex") for text in PATTERNS]
    return ", ".join(sorted(set(map(handled, answers))))


@attack("grammars.others", "While such a schema compiles, other clients are served", "CWE-400")
def _(target: Target) -> str:
    body = target.rest.body({"max_tokens": 4, "response_format": _format(_branches(24))})
    request = target.rest.client.build_request("POST", target.rest.path(), json=body).read()
    connections = target.connections(4, target.head(f"Content-Length: {len(request)}") + request)
    try:
        target.serve_others("while schemas compile")
    finally:
        for connection in connections:
            connection.close()
    hold(connections, "no connection was accepted")
    return "others were served"
