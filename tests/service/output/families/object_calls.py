"""Answers with calls that are JSON objects, and templates with such calls, by family."""

from __future__ import annotations

from service.output.families.object_calls import (
    APERTUS,
    COMMAND,
    COMMAND_R,
    GRANITE,
    GRANITE_FUNCTION,
    HERMES,
    INTERNLM2,
    LLAMA3,
    MINIMAX_M1,
    MISTRAL,
    NEMOTRON,
    PHI4_MINI,
    PLAIN_JSON,
)
from tests.service.output.families.family import OSLO, Family, chatml, each


def _object(name: str = "name", arguments: str = "arguments", lead: str = "") -> str:
    return f"""{{{{ '{{{lead}"{name}": "' + f.name + '", "{arguments}": ' + (f.arguments | tojson) + '}}' }}}}"""


OBJECT_FAMILIES = [
    Family(
        PHI4_MINI,
        chatml("{{ '<|tool_call|>[' }}" + each(_object(), ", ") + "{{ ']<|/tool_call|>' }}", "<|tool|><|/tool|>"),
        (
            (
                (
                    '<|tool_call|>[{"name": "weather", "arguments": {"city": "Oslo", "days": 3}}, {"name": "ping", '
                    '"arguments": {}}]<|/tool_call|>'
                ),
                "",
                [("weather", OSLO), ("ping", {})],
            ),
            ('functools[{"name": "ping", "arguments": {}}]', "", [("ping", {})]),
            ("functools is a module", "functools is a module", []),
        ),
        '<|tool_call|>[{"name": "ping", "arguments": {}}]<|/tool_call|>',
    ),
    Family(
        GRANITE,
        chatml("{{ '<|tool_call|>[' }}" + each(_object(), ", ") + "{{ ']' }}"),
        (
            (
                '<|tool_call|>[{"name": "weather", "arguments": {"city": "Oslo", "days": 3}}]',
                "",
                [("weather", OSLO)],
            ),
            ('<|tool_call|> [{"arguments": {}, "name": "ping"}]\n', "", [("ping", {})]),
            ('[{"name": "ping", "arguments": {}}]', '[{"name": "ping", "arguments": {}}]', []),
        ),
        '<|tool_call|>[{"name": "ping", "arguments": {}}]',
    ),
    Family(
        GRANITE_FUNCTION,
        chatml(each("{{ '<function_call> ' }}" + _object(), "\n")),
        (
            (
                (
                    '<function_call> {"name": "weather", "arguments": {"city": "Oslo", "days": 3}}\n<function_call> '
                    '{"name": "ping", "arguments": {}}'
                ),
                "",
                [("weather", OSLO), ("ping", {})],
            ),
        ),
        '<function_call> {"name": "ping", "arguments": {}}',
    ),
    Family(
        COMMAND,
        chatml(
            "{{ '<|START_ACTION|>[\n    ' }}"
            + each(_object("tool_name", "parameters", '"tool_call_id": "0", '), ",\n    ")
            + "{{ '\n]<|END_ACTION|>' }}"
        ),
        (
            (
                (
                    '<|START_ACTION|>[\n    {"tool_call_id": "0", "tool_name": "weather", "parameters": '
                    '{"city": "Oslo", "days": 3}},\n    {"tool_call_id": "1", "tool_name": "ping", "parameters": {}}\n]'
                    "<|END_ACTION|>"
                ),
                "",
                [("weather", OSLO), ("ping", {})],
            ),
        ),
        '<|START_ACTION|>[\n    {"tool_call_id": "0", "tool_name": "ping", "parameters": {}}\n]<|END_ACTION|>',
    ),
    Family(
        COMMAND_R,
        chatml(
            "{{ 'Action: ```json\n[\n    ' }}" + each(_object("tool_name", "parameters"), ",\n    ") + "{{ '\n]```' }}"
        ),
        (
            (
                (
                    'Action: ```json\n[\n    {\n        "tool_name": "weather",\n        '
                    '"parameters": {"city": "Oslo", '
                    '"days": 3}\n    }\n]```'
                ),
                "",
                [("weather", OSLO)],
            ),
            ("Action: none", "Action: none", []),
        ),
        'Action: ```json\n[\n    {"tool_name": "ping", "parameters": {}}\n]```',
    ),
    Family(
        MINIMAX_M1,
        chatml("{{ '<tool_calls>\n' }}" + each(_object(), "\n") + "{{ '\n</tool_calls>' }}"),
        (
            (
                (
                    '<tool_calls>\n{"name": "weather", "arguments": {"city": "Oslo", "days": 3}}\n'
                    '{"name": "ping", "arguments": {}}\n</tool_calls>'
                ),
                "",
                [("weather", OSLO), ("ping", {})],
            ),
            # The layout of Jamba and Hunyuan.
            ('<tool_calls>[\n  {"name": "ping", "arguments": {}}\n]</tool_calls>', "", [("ping", {})]),
        ),
        '<tool_calls>\n{"name": "ping", "arguments": {}}\n</tool_calls>',
    ),
    Family(
        INTERNLM2,
        chatml(each("{{ '<|action_start|><|plugin|>\n' }}" + _object("name", "parameters") + "{{ '<|action_end|>' }}")),
        (
            (
                (
                    'I look.<|action_start|><|plugin|>\n{"name": "weather", "parameters": {"city": "Oslo", "days": 3}}'
                    "<|action_end|>"
                ),
                "I look.",
                [("weather", OSLO)],
            ),
        ),
        '<|action_start|><|plugin|>\n{"name": "ping", "parameters": {}}<|action_end|>',
    ),
    Family(
        APERTUS,
        chatml(
            "{{ '<|tools_prefix|>[' }}"
            + each("{{ '{\"' + f.name + '\": ' + (f.arguments | tojson) + '}' }}", ", ")
            + "{{ ']<|tools_suffix|>' }}"
        ),
        (
            (
                '<|tools_prefix|>[{"weather": {"city": "Oslo", "days": 3}}, {"ping": {}}]<|tools_suffix|>',
                "",
                [("weather", OSLO), ("ping", {})],
            ),
        ),
        '<|tools_prefix|>[{"ping": {}}]<|tools_suffix|>',
    ),
    Family(
        NEMOTRON,
        chatml("{{ '<TOOLCALL>[' }}" + each(_object(), ", ") + "{{ ']</TOOLCALL>' }}"),
        (
            (
                '<TOOLCALL>[{"name": "weather", "arguments": {"city": "Oslo", "days": 3}}]</TOOLCALL>',
                "",
                [("weather", OSLO)],
            ),
        ),
        '<TOOLCALL>[{"name": "ping", "arguments": {}}]</TOOLCALL>',
    ),
    Family(
        HERMES,
        chatml(each("{{ '<tool_call>\n' }}" + _object() + "{{ '\n</tool_call>' }}", "\n")),
        (
            (
                '<tool_call>\n{"name": "weather", "arguments": {"city": "Oslo", "days": 3}}\n</tool_call>',
                "",
                [("weather", OSLO)],
            ),
        ),
        '<tool_call>\n{"name": "ping", "arguments": {}}\n</tool_call>',
    ),
    Family(
        MISTRAL,
        chatml("{{ '[TOOL_CALLS][' }}" + each(_object(), ", ") + "{{ ']' }}"),
        (
            (
                '[TOOL_CALLS][{"name": "weather", "arguments": {"city": "Oslo", "days": 3}}]',
                "",
                [("weather", OSLO)],
            ),
        ),
        '[TOOL_CALLS][{"name": "ping", "arguments": {}}]',
    ),
    Family(
        LLAMA3,
        chatml(
            each(
                "{{ '{\"name\": \"' + f.name + '\", ' }}{{ '\"parameters\": ' }}{{ (f.arguments | tojson) + '}' }}",
                "; ",
            )
        ),
        (('{"name": "weather", "parameters": {"city": "Oslo", "days": 3}}', "", [("weather", OSLO)]),),
        '{"name": "ping", "parameters": {}}',
    ),
    Family(
        PLAIN_JSON,
        chatml(each("{{ f | tojson }}", "\n")),
        (('{"name": "weather", "arguments": {"city": "Oslo", "days": 3}}', "", [("weather", OSLO)]),),
        '{"name": "ping", "arguments": {}}',
    ),
]
