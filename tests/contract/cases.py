"""The table of invalid requests: (field, invalid value, rule), defined once for gRPC and for every dialect.

A case changes one valid request. `rest` is merged into the OpenAI-style body; `grpc` is a text-format ChatRequest that
replaces the fields it names. `field` is the path of the invalid field in the contract, `param` its name in REST, and
`in_message` a text that the error message must contain (the limit, or the rule).
"""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Case:
    """One invalid request in its gRPC and its REST form."""

    name: str
    rest: dict[str, Any]
    grpc: str
    field: str
    param: str
    in_message: str


def number(name: str, value: str, in_message: str, *, inside: str = "sampling") -> Case:
    """Return the case of a number outside its range."""
    value_of = float(value) if "." in value or name != "seed" else int(value)
    return Case(
        f"{name}={value}", {name: value_of}, f"{inside} {{ {name}: {value} }}", f"{inside}.{name}", name, in_message
    )


USER = {"role": "user", "content": "hi"}
TOOL = {"type": "function", "function": {"name": "f"}}
WHOLE = {"type": "object", "properties": {"a": {}}, "required": ["a"]}
UNIQUE = {"type": "array", "uniqueItems": True}
GRPC_USER = 'messages { role: ROLE_USER content { text: "hi" } }'
GRPC_TOOL = 'tools { function { name: "f" } }'

CASES = [
    number("temperature", "-0.5", "0"),
    number("temperature", "2.5", "2"),
    number("top_p", "0.0", "0"),
    number("top_p", "1.5", "1"),
    number("min_p", "1.5", "1"),
    number("typical_p", "0.0", "0"),
    number("frequency_penalty", "-2.5", "-2"),
    number("frequency_penalty", "2.5", "2"),
    number("presence_penalty", "-2.5", "-2"),
    number("presence_penalty", "2.5", "2"),
    number("repetition_penalty", "0.0", "0"),
    Case("max_tokens=0", {"max_tokens": 0}, "stopping { max_tokens: 0 }", "stopping.max_tokens", "max_tokens", "1"),
    Case(
        "max_completion_tokens=0",
        {"max_completion_tokens": 0},
        "stopping { max_tokens: 0 }",
        "stopping.max_tokens",
        "max_completion_tokens",
        "1",
    ),
    Case(
        "min_tokens",
        {"min_tokens": 5, "max_tokens": 2},
        "stopping { min_tokens: 5 max_tokens: 2 }",
        "stopping.min_tokens",
        "min_tokens",
        "max_tokens",
    ),
    Case("stop empty", {"stop": ["a", ""]}, 'stopping { stop: "a" stop: "" }', "stopping.stop[1]", "stop.1", "1"),
    Case(
        "stop too many",
        {"stop": ["x"] * 17},
        "stopping { " + 'stop: "x" ' * 17 + "}",
        "stopping.stop",
        "stop",
        "16",
    ),
    Case("n=0", {"n": 0}, "n: 0", "n", "n", "1"),
    Case("n=129", {"n": 129}, "n: 129", "n", "n", "128"),
    Case(
        "top_logprobs=21",
        {"logprobs": True, "top_logprobs": 21},
        "logprobs { top_logprobs: 21 }",
        "logprobs.top_logprobs",
        "top_logprobs",
        "20",
    ),
    Case(
        "logit_bias",
        {"logit_bias": {"5": 200}},
        "sampling { logit_bias { key: 5 value: 200 } }",
        "sampling.logit_bias[5]",
        "logit_bias.5",
        "100",
    ),
    Case(
        "allowed_token_ids too many",
        {"allowed_token_ids": [1] * 4097},
        "sampling { " + "allowed_token_ids: 1 " * 4097 + "}",
        "sampling.allowed_token_ids",
        "allowed_token_ids",
        "4096",
    ),
    Case("messages empty", {"messages": []}, "messages_none", "messages", "messages", "1"),
    Case(
        "tool_call_id missing",
        {"messages": [USER, {"role": "tool", "tool_call_id": "", "content": "x"}]},
        GRPC_USER + ' messages { role: ROLE_TOOL content { text: "x" } }',
        "messages[1].tool_call_id",
        "messages.1.tool_call_id",
        "tool_call_id",
    ),
    Case(
        "content missing",
        {"messages": [USER, {"role": "user", "content": None}]},
        GRPC_USER + " messages { role: ROLE_USER }",
        "messages[1].content",
        "messages.1.content",
        "content",
    ),
    Case(
        "function name",
        {"tools": [{"type": "function", "function": {"name": "no spaces"}}]},
        'tools { function { name: "no spaces" } }',
        "tools[0].function.name",
        "tools.0.function.name",
        "64",
    ),
    Case("tools twice", {"tools": [TOOL, TOOL]}, f"{GRPC_TOOL} {GRPC_TOOL}", "tools", "tools", "unique"),
    Case(
        "tool_choice without tools",
        {"tool_choice": "required"},
        "tool_choice { mode: TOOL_CHOICE_MODE_REQUIRED }",
        "tool_choice",
        "tool_choice",
        "tools",
    ),
    Case(
        "tool_choice unknown",
        {"tools": [TOOL], "tool_choice": {"type": "function", "function": {"name": "g"}}},
        GRPC_TOOL + ' tool_choice { function_name: "g" }',
        "tool_choice",
        "tool_choice",
        "not in tools",
    ),
    Case(
        "image to a text model",
        {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "https://a/b.png"}}]}]},
        'messages { role: ROLE_USER content { image_url { url: "https://a/b.png" } } }',
        "messages[0].content[0].image_url",
        "messages.0.content.0.image_url",
        "text only",
    ),
    Case(
        "prompt too long",
        {"messages": [{"role": "user", "content": "word " * 4000}]},
        f'messages {{ role: ROLE_USER content {{ text: "{"word " * 4000}" }} }}',
        "messages",
        "messages",
        "2047",
    ),
    Case(
        "schema unsupported",
        {"response_format": {"type": "json_schema", "json_schema": {"name": "s", "schema": UNIQUE}}},
        'output_constraint { json_schema { name: "s" schema: "{\\"type\\":\\"array\\",\\"uniqueItems\\":true}" } }',
        "output_constraint.json_schema.schema",
        "response_format.json_schema.schema",
        "uniqueItems",
    ),
    Case(
        "fewer tokens than the shortest JSON",
        {"max_tokens": 1, "response_format": {"type": "json_schema", "json_schema": {"name": "s", "schema": WHOLE}}},
        'stopping { max_tokens: 1 } output_constraint { json_schema { name: "s" schema: '
        '"{\\"type\\":\\"object\\",\\"properties\\":{\\"a\\":{}},\\"required\\":[\\"a\\"]}" } }',
        "stopping.max_tokens",
        "max_tokens",
        "at least",
    ),
]  # fmt: skip
