"""Models that write tool calls as Qwen3-Coder and gpt-oss do call a function and use its result, in every dialect."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import product
from typing import Any

import httpx
import pytest
from sluice.v1 import chat_pb2, chat_pb2_grpc, content_pb2, tool_pb2

from service.output.families.named_calls import HARMONY
from service.output.families.tagged_calls import QWEN_CODER
from service.output.families.tool_syntax import CHANNEL_MARKERS
from tests.e2e.scripted_models import RESULT, Clients, Script, scripted_product
from tests.engine.constraints.fakes import tokenizer_of
from tests.service.output.families.families import FAMILIES

ASKED = "What is the weather in Oslo?"
ANSWER = "It is sunny."
SCHEMA = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
    "required": ["city", "days"],
}
ARGUMENTS = {"city": "Oslo", "days": 3}
TEMPLATES = {family.syntax: family.template for family in FAMILIES}
CHATML_TOKENS = ("<|im_start|>", "<|im_end|>")


@dataclass
class Turn:
    """A received turn: its text, its reasoning, and its calls as id, name and arguments."""

    text: str = ""
    reasoning: str = ""
    calls: list[tuple[str, str, str]] = field(default_factory=list)
    finish: str | None = None


def scripts() -> dict[str, Script]:
    """Return two models by name."""
    return {
        "coder": Script(
            TEMPLATES[QWEN_CODER],
            tokenizer_of("<tool_call>", "</tool_call>", special=CHATML_TOKENS),
            ("<|im_end|>",),
            "Let me look.\n<tool_call>\n<function=weather>\n<parameter=city>\nOslo\n</parameter>\n<parameter=days>\n3\n"
            "</parameter>\n</function>\n</tool_call><|im_end|>",
            f"{ANSWER}<|im_end|>",
        ),
        "oss": Script(
            TEMPLATES[HARMONY],
            tokenizer_of(special=(*CHATML_TOKENS, *CHANNEL_MARKERS)),
            ("<|return|>", "<|call|>"),
            "<|channel|>analysis<|message|>I need the weather.<|end|><|start|>assistant<|channel|>commentary "
            'to=functions.weather <|constrain|>json<|message|>{"city": "Oslo", "days": 3}<|call|>',
            "<|channel|>analysis<|message|>So it is.<|end|><|start|>assistant"
            f"<|channel|>final<|message|>{ANSWER}<|return|>",
        ),
    }


# The text and reasoning before each model's call, and the rendering of the call in the next prompt.
BEFORE_CALL = {"coder": ("Let me look.", ""), "oss": ("", "I need the weather.")}
SHOWN = {
    "coder": "<function=weather>\n<parameter=city>\nOslo\n</parameter>\n<parameter=days>\n3\n</parameter>",
    "oss": 'to=functions.weather<|channel|>commentary json<|message|>{"city": "Oslo", "days": 3}<|call|>',
}


def _events(answer: httpx.Response) -> Iterator[Any]:
    for line in answer.text.splitlines():
        if line.startswith("data: ") and line != "data: [DONE]":
            yield json.loads(line.removeprefix("data: "))


class OpenaiFamily:
    """Chat completions at one of their paths."""

    def __init__(self, path: str) -> None:
        self._path = path

    async def ask(self, clients: Clients, model: str, earlier: Turn | None, *, streamed: bool) -> Turn:
        messages: list[Any] = [{"role": "user", "content": ASKED}]
        if earlier is not None:
            calls = [
                {"id": i, "type": "function", "function": {"name": n, "arguments": a}} for i, n, a in earlier.calls
            ]
            messages.append({"role": "assistant", "content": earlier.text or None, "tool_calls": calls})
            messages += [{"role": "tool", "tool_call_id": i, "content": RESULT} for i, *_ in earlier.calls]
        tool = {"type": "function", "function": {"name": "weather", "parameters": SCHEMA}}
        body = {"model": model, "messages": messages, "tools": [tool], "stream": streamed}
        answer = await clients.http.post(self._path.format(model), json=body)
        assert answer.status_code == 200, answer.text
        if not streamed:
            (choice,) = answer.json()["choices"]
            return self._added(Turn(), choice["message"], choice["finish_reason"])
        turn = Turn()
        for event in _events(answer):
            for choice in event["choices"]:
                turn = self._added(turn, choice["delta"], choice["finish_reason"])
        return turn

    def _added(self, turn: Turn, part: Any, finish: str | None) -> Turn:
        content: Any = part.get("content") or ""
        blocks: list[Any] = content if isinstance(content, list) else [{"type": "text", "text": content}]
        for block in blocks:
            if block["type"] == "text":
                turn.text += block["text"]
            else:
                turn.reasoning += "".join(each["text"] for each in block["summary"])
        turn.reasoning += part.get("reasoning_content") or ""
        for call in part.get("tool_calls") or ():
            if call.get("id"):
                turn.calls.append((call["id"], call["function"]["name"], ""))
            call_id, name, arguments = turn.calls[-1]
            turn.calls[-1] = call_id, name, arguments + call["function"]["arguments"]
        turn.finish = finish or turn.finish
        return turn


class Responses:
    """OpenAI's Responses API."""

    async def ask(self, clients: Clients, model: str, earlier: Turn | None, *, streamed: bool) -> Turn:
        items: list[Any] = [{"role": "user", "content": ASKED}]
        if earlier is not None:
            for call_id, name, arguments in earlier.calls:
                items.append({"type": "function_call", "call_id": call_id, "name": name, "arguments": arguments})
                items.append({"type": "function_call_output", "call_id": call_id, "output": RESULT})
        tool = {"type": "function", "name": "weather", "parameters": SCHEMA}
        body = {"model": model, "input": items, "tools": [tool], "stream": streamed}
        answer = await clients.http.post("/v1/responses", json=body)
        assert answer.status_code == 200, answer.text
        whole = list(_events(answer))[-1]["response"] if streamed else answer.json()
        turn = Turn()
        for item in whole["output"]:
            match item["type"]:
                case "message":
                    turn.text += "".join(part["text"] for part in item["content"])
                case "reasoning":
                    parts = item.get("content") or item["summary"]
                    turn.reasoning += "".join(part["text"] for part in parts)
                case _:
                    turn.calls.append((item["call_id"], item["name"], item["arguments"]))
        return turn


class Anthropic:
    """Anthropic's Messages."""

    async def ask(self, clients: Clients, model: str, earlier: Turn | None, *, streamed: bool) -> Turn:
        messages: list[Any] = [{"role": "user", "content": ASKED}]
        if earlier is not None:
            blocks = [{"type": "tool_use", "id": i, "name": n, "input": json.loads(a)} for i, n, a in earlier.calls]
            messages.append({"role": "assistant", "content": blocks})
            results = [{"type": "tool_result", "tool_use_id": i, "content": RESULT} for i, *_ in earlier.calls]
            messages.append({"role": "user", "content": results})
        tool = {"name": "weather", "input_schema": SCHEMA}
        body = {"model": model, "max_tokens": 400, "messages": messages, "tools": [tool], "stream": streamed}
        answer = await clients.http.post("/v1/messages", json=body)
        assert answer.status_code == 200, answer.text
        turn = Turn()
        if not streamed:
            for block in answer.json()["content"]:
                self._begin(turn, block)
                if block["type"] == "tool_use":
                    self._add(turn, {"partial_json": json.dumps(block["input"])})
            return turn
        for event in _events(answer):
            if event["type"] == "content_block_start":
                self._begin(turn, event["content_block"])
            elif event["type"] == "content_block_delta":
                self._add(turn, event["delta"])
        return turn

    def _begin(self, turn: Turn, block: Any) -> None:
        turn.text += block.get("text", "")
        turn.reasoning += block.get("thinking", "")
        if block["type"] == "tool_use":
            turn.calls.append((block["id"], block["name"], ""))

    def _add(self, turn: Turn, delta: Any) -> None:
        turn.text += delta.get("text", "")
        turn.reasoning += delta.get("thinking", "")
        if "partial_json" in delta:
            call_id, name, arguments = turn.calls[-1]
            turn.calls[-1] = call_id, name, arguments + delta["partial_json"]


class Grpc:
    """`ChatService`."""

    async def ask(self, clients: Clients, model: str, earlier: Turn | None, *, streamed: bool) -> Turn:
        def message(role: str, text: str, **more: Any) -> content_pb2.Message:
            parts = [content_pb2.ContentPart(text=text)] if text else []
            return content_pb2.Message(role=f"ROLE_{role}", content=parts, **more)

        messages = [message("USER", ASKED)]
        if earlier is not None:
            calls = [
                tool_pb2.ToolCall(id=i, function=tool_pb2.FunctionCall(name=n, arguments=a))
                for i, n, a in earlier.calls
            ]
            messages.append(message("ASSISTANT", earlier.text, tool_calls=calls))
            messages += [message("TOOL", RESULT, tool_call_id=i) for i, *_ in earlier.calls]
        function = tool_pb2.FunctionDefinition(name="weather", parameters=json.dumps(SCHEMA))
        request = chat_pb2.ChatRequest(model=model, messages=messages, tools=[tool_pb2.Tool(function=function)])
        stub = chat_pb2_grpc.ChatServiceStub(clients.channel)
        turn = Turn()
        if not streamed:
            received = (await stub.Chat(request)).choices[0].message
            turn.text = "".join(part.text for part in received.content)
            turn.reasoning = received.reasoning
            turn.calls = [(call.id, call.function.name, call.function.arguments) for call in received.tool_calls]
            return turn
        async for event in stub.StreamChat(request):
            turn.text += event.content_delta.text
            turn.reasoning += event.reasoning_delta.text
            if event.HasField("tool_call_delta"):
                delta = event.tool_call_delta
                if delta.HasField("name"):
                    turn.calls.append((delta.id, delta.name, ""))
                call_id, name, arguments = turn.calls[-1]
                turn.calls[-1] = call_id, name, arguments + delta.arguments
        return turn


DIALECTS: dict[str, Any] = {
    "openai": OpenaiFamily("/v1/chat/completions"),
    "databricks": OpenaiFamily("/serving-endpoints/{}/invocations"),
    "azure": OpenaiFamily("/chat/completions?api-version=2024-05-01-preview"),
    "responses": Responses(),
    "anthropic": Anthropic(),
    "grpc": Grpc(),
}


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_models_call_and_use_the_result(dialect: str) -> None:
    """The call has its name and arguments, and the second prompt has the call and its result in the family's syntax."""
    models = scripts()
    ask = DIALECTS[dialect].ask
    async with scripted_product(models) as clients:
        for model, streamed in product(BEFORE_CALL, (False, True)):
            first = await ask(clients, model, None, streamed=streamed)
            text, reasoning = BEFORE_CALL[model]
            assert first.text == text
            assert first.reasoning in (reasoning, "")
            assert [(name, json.loads(arguments)) for _, name, arguments in first.calls] == [("weather", ARGUMENTS)]
            assert first.finish in ("tool_calls", None)
            second = await ask(clients, model, first, streamed=streamed)
            assert (second.text, second.calls) == (ANSWER, [])
            shown = models[model].prompts[-1]
            assert SHOWN[model] in shown
            assert RESULT in shown
