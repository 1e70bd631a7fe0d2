"""The official Anthropic client for Python: its methods, its helpers, and the history that they send."""

import asyncio
import json
import sys
import urllib.request
from contextlib import suppress
from pathlib import Path
from typing import Any

sys.path[:] = [each for each in sys.path if Path(each) != Path(__file__).parent]  # this file has the package's name

import anthropic  # noqa: E402
from anthropic import beta_tool  # noqa: E402
from pydantic import BaseModel  # noqa: E402

MODEL = "sluice-demo"
QUESTION: Any = [{"role": "user", "content": "What is the capital of France?"}]
GREEDY: Any = {"model": MODEL, "max_tokens": 60, "extra_body": {"temperature": 0}}
WEATHER: Any = {
    "name": "get_weather",
    "description": "Tells the weather of a city.",
    "input_schema": {
        "type": "object",
        "properties": {"city": {"type": "string", "maxLength": 30}},
        "required": ["city"],
        "additionalProperties": False,
    },
}


class City(BaseModel):
    """What a city is here."""

    name: str
    capital: bool


def client(url: str, **options: Any) -> anthropic.Anthropic:
    """A client, configured as its documentation shows."""
    return anthropic.Anthropic(base_url=url, **{"api_key": "unused", "max_retries": 0, **options})


def check_message(url: str, _: str) -> None:
    """An answer has text, reason, usage and request id; `count_tokens` gives its number of prompt tokens."""
    messages = client(url).messages
    system: Any = [{"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}]
    answer = messages.create(messages=QUESTION, system=system, metadata={"user_id": "u"}, **GREEDY)
    assert [block.type for block in answer.content] == ["text"]
    assert (answer.role, answer.type, answer.model) == ("assistant", "message", MODEL)
    assert answer.stop_reason in {"end_turn", "max_tokens"}
    assert answer.id.startswith("msg_")
    assert answer._request_id  # noqa: SLF001  the name that its documentation has
    usage = answer.usage
    num_tokens = messages.count_tokens(model=MODEL, messages=QUESTION, system=system).input_tokens
    assert num_tokens == usage.input_tokens + (usage.cache_read_input_tokens or 0)
    assert usage.output_tokens > 0


def check_answer_is_sent_back(url: str, _: str) -> None:
    """A conversation continues with the answer sent back as its blocks, as its parameter, or as its text."""
    messages = client(url).messages
    answer = messages.create(messages=QUESTION, **GREEDY)
    forms: list[Any] = [
        {"role": "assistant", "content": answer.content},
        answer.to_param(),
        {"role": "assistant", "content": [block.to_dict() for block in answer.content]},
    ]
    options: Any = {"role": "user", "content": "And of Norway?"}
    seconds = [messages.create(messages=[*QUESTION, form, options], **GREEDY) for form in forms]
    assert len({second.content[0].text for second in seconds}) == 1


def check_conversation_of_its_own_server_is_continued(url: str, _: str) -> None:
    """An answer with a search on Anthropic's server is sent back as the SDK keeps it, with the tools of its request."""
    blocks = [
        {"type": "thinking", "thinking": "I search.", "signature": "s"},
        {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "capital of France"}},
        {
            "type": "web_search_tool_result",
            "tool_use_id": "srvtoolu_1",
            "content": [
                {"type": "web_search_result", "title": "Paris", "url": "https://a", "encrypted_content": "?"},
            ],
        },
        {"type": "text", "text": "Paris.", "citations": None},
    ]
    head: Any = {"id": "msg_1", "type": "message", "role": "assistant", "model": "claude", "stop_sequence": None}
    rest: Any = {"stop_reason": "end_turn", "usage": {"input_tokens": 1, "output_tokens": 1}}
    kept = anthropic.types.Message.model_validate({**head, **rest, "content": blocks})
    tools: Any = [{"type": "web_search_20250305", "name": "web_search", "max_uses": 2}, WEATHER]
    again: Any = [*QUESTION, {"role": "assistant", "content": kept.content}, {"role": "user", "content": "And now?"}]
    answer = client(url).messages.create(messages=again, tools=tools, tool_choice={"type": "none"}, **GREEDY)
    assert [block.type for block in answer.content] == ["text"]


def check_last_message_is_continued(url: str, _: str) -> None:
    """The first half of an answer, sent as the assistant's last message, is continued with the second half."""
    messages = client(url).messages
    whole: Any = messages.create(messages=QUESTION, **GREEDY).content[0]
    half = whole.text[: len(whole.text) // 2].rpartition(" ")[0]
    assert half
    rest: Any = messages.create(messages=[*QUESTION, {"role": "assistant", "content": half}], **GREEDY).content[0]
    assert half + rest.text == whole.text


def check_stream_helper(url: str, _: str) -> None:
    """`messages.stream` yields the text in pieces, and a final message equal to the unstreamed one."""
    messages = client(url).messages
    whole = messages.create(messages=QUESTION, **GREEDY)
    with messages.stream(messages=QUESTION, **GREEDY) as stream:
        text = "".join(stream.text_stream)
        final = stream.get_final_message()
    assert [block.to_dict() for block in final.content] == [block.to_dict() for block in whole.content]
    assert text == stream.get_final_text()
    assert (final.stop_reason, final.usage.output_tokens) == (whole.stop_reason, whole.usage.output_tokens)
    with messages.stream(messages=QUESTION, **GREEDY) as stream:
        kinds = [event.type for event in stream]
    assert kinds[0] == "message_start"
    assert kinds[-2:] == ["message_delta", "message_stop"]
    assert {"content_block_start", "content_block_delta", "text", "content_block_stop"} < set(kinds)


def check_raw_stream(url: str, _: str) -> None:
    """`stream=True`: the first event has the prompt's length, the last but one the complete usage."""
    events: Any = list(client(url).messages.create(messages=QUESTION, stream=True, **GREEDY))
    count = client(url).messages.count_tokens(model=MODEL, messages=QUESTION).input_tokens
    assert events[0].message.usage.input_tokens == count
    usage = events[-2].usage
    assert usage.input_tokens + usage.cache_read_input_tokens == count
    assert usage.output_tokens > 0


def check_async_client(url: str, _: str) -> None:
    """`AsyncAnthropic`: two concurrent requests, streamed and unstreamed."""

    async def ask() -> None:
        async with anthropic.AsyncAnthropic(base_url=url, api_key="unused", max_retries=0) as one:
            whole, other = await asyncio.gather(*(one.messages.create(messages=QUESTION, **GREEDY) for _ in "ab"))
            async with one.messages.stream(messages=QUESTION, **GREEDY) as stream:
                text = "".join([piece async for piece in stream.text_stream])
        assert whole.content[0].text == other.content[0].text == text

    asyncio.run(ask())


def check_tools(url: str, _: str) -> None:
    """A required call has input that matches its schema, streamed and unstreamed, and its result can be sent back."""
    messages = client(url).messages
    options: Any = {**GREEDY, "max_tokens": 200, "tools": [WEATHER]}
    for choice in ({"type": "any"}, {"type": "tool", "name": "get_weather", "disable_parallel_tool_use": True}):
        first = messages.create(messages=QUESTION, tool_choice=choice, **options)
        assert first.stop_reason == "tool_use"
        call: Any = first.content[-1]
        assert (call.type, call.name, set(call.input)) == ("tool_use", "get_weather", {"city"})
        with messages.stream(messages=QUESTION, tool_choice=choice, **options) as stream:
            kinds = {event.type for event in stream}
            streamed: Any = stream.get_final_message().content[-1]
        assert "input_json" in kinds
        assert streamed.input == call.input
        for result in ("sunny", [{"type": "text", "text": "sunny"}], None):
            block: Any = {"type": "tool_result", "tool_use_id": call.id, "content": result, "is_error": result is None}
            if result is None:
                del block["content"]
            content: Any = [block, {"type": "text", "text": "Thanks."}]
            again: Any = [*QUESTION, {"role": "assistant", "content": first.content}]
            assert messages.create(messages=[*again, {"role": "user", "content": content}], **options).stop_reason
    assert messages.create(messages=QUESTION, tool_choice={"type": "none"}, **options).stop_reason != "tool_use"


def check_tool_runner(url: str, _: str) -> None:
    """The tool runner calls the function and sends its result until the model ends its turn, also streamed."""
    cities: list[str] = []

    def get_weather(city: str) -> str:
        """Tells the weather of a city.

        Args:
            city: Its name.
        """
        cities.append(city)
        return "sunny, 20 degrees"

    options: Any = {
        **GREEDY,
        "max_tokens": 200,
        "messages": QUESTION,
        "tools": [beta_tool(get_weather)],
        "tool_choice": {"type": "any"},
        "max_iterations": 2,
    }
    runner = client(url).beta.messages.tool_runner(**options)
    answers = list(runner)
    assert len(answers) == len(cities) == 2
    streamed = client(url).beta.messages.tool_runner(stream=True, **options)
    finals = [stream.get_final_message() for stream in streamed]
    assert [final.content[-1].input for final in finals] == [answer.content[-1].input for answer in answers]


def check_thinking(url: str, _: str) -> None:
    """Thinking, with or without a budget, gives a block that can be sent back; disabled thinking gives none."""
    messages = client(url).messages
    long: Any = {**GREEDY, "max_tokens": 1400}
    for thinking in ({"type": "enabled", "budget_tokens": 1024}, {"type": "adaptive"}):
        answer = messages.create(messages=QUESTION, thinking=thinking, output_config={"effort": "low"}, **long)
        thought: Any = answer.content[0]
        assert thought.type == "thinking"
        assert thought.signature
        details: Any = answer.usage.output_tokens_details
        assert 0 < details.thinking_tokens <= 1026
        with messages.stream(messages=QUESTION, thinking=thinking, output_config={"effort": "low"}, **long) as stream:
            kinds = {event.type for event in stream}
            final: Any = stream.get_final_message().content[0]
        assert {"thinking", "signature"} <= kinds
        assert final.to_dict() == thought.to_dict()
        again: Any = [*QUESTION, {"role": "assistant", "content": answer.content}, *QUESTION]
        assert messages.create(messages=again, **GREEDY).content[0].type == "text"
    hidden: Any = {"type": "adaptive", "display": "omitted"}
    omitted: Any = messages.create(messages=QUESTION, thinking=hidden, output_config={"effort": "low"}, **long)
    assert (omitted.content[0].thinking, omitted.content[0].signature) == ("", thought.signature)
    off = messages.create(messages=QUESTION, thinking={"type": "disabled"}, **GREEDY)
    assert [block.type for block in off.content] == ["text"]


def check_parse_returns_a_pydantic_model(url: str, _: str) -> None:
    """`messages.parse` sends the schema of a pydantic model and returns an instance of it, streamed too."""
    messages = client(url).messages
    options: Any = {"model": MODEL, "max_tokens": 300, "messages": QUESTION, "output_format": City}
    given: Any = {"temperature": 0, "repetition_penalty": 1.2}
    assert isinstance(messages.parse(**options, extra_body=given).parsed_output, City)
    with messages.stream(**options, extra_body=given) as stream:
        assert isinstance(stream.get_final_message().parsed_output, City)


def check_models(url: str, _: str) -> None:
    """Models are listed in pages and retrieved by name."""
    models = client(url).models
    names = [model.id for model in models.list()]
    assert MODEL in names
    assert [model.id for model in models.list(limit=1)] == names
    found = models.retrieve(MODEL)
    assert (found.id, found.type, found.display_name) == (MODEL, "model", MODEL)
    assert found.created_at.year > 2000
    with urllib.request.urlopen(f"{url}/v1/models", timeout=240) as others:  # noqa: S310  http, and our own
        assert set(json.loads(others.read())) == {"object", "data"}


def check_errors(url: str, _: str) -> None:
    """An invalid value raises the client's typed error, which names the field; the next request succeeds."""
    messages = client(url).messages
    long: Any = [{"role": "user", "content": "word " * 4000}]
    image: Any = [{"type": "image", "source": {"type": "url", "url": "https://pictures.example/cat.png"}}]
    for change, error, kind, words in (
        ({"extra_body": {"temperature": 3}}, anthropic.BadRequestError, "invalid_request_error", "temperature"),
        ({"messages": []}, anthropic.BadRequestError, "invalid_request_error", "messages"),
        ({"max_tokens": 0}, anthropic.BadRequestError, "invalid_request_error", "max_tokens"),
        ({"extra_body": {"colour": 1}}, anthropic.BadRequestError, "invalid_request_error", "colour"),
        ({"messages": long}, anthropic.BadRequestError, "invalid_request_error", "prompt is too long"),
        ({"messages": [{"role": "user", "content": image}]}, anthropic.BadRequestError, "invalid_request_error",
         "messages.0.content.0"),
        ({"model": "nobody"}, anthropic.NotFoundError, "not_found_error", "nobody"),
    ):  # fmt: skip
        options: Any = {**GREEDY, "messages": QUESTION, **change}
        for ask in (messages.create, messages.stream):
            try:
                got: Any = ask(**options)
                if ask == messages.stream:
                    with got as stream:
                        stream.until_done()
            except error as caught:
                body: Any = caught.body
                assert body["error"]["type"] == kind, body
                assert words in body["error"]["message"], body
                assert body["request_id"] == caught.request_id
            else:
                raise AssertionError(change)
        messages.create(messages=QUESTION, **GREEDY)


def check_unknown_paths(url: str, _: str) -> None:
    """A path that is not served raises the client's typed error."""
    with suppress(anthropic.NotFoundError):
        client(url).messages.batches.list()
        raise AssertionError
    with suppress(anthropic.NotFoundError):
        client(url).beta.files.list()
        raise AssertionError


def check_retries(_: str, unavailable_url: str) -> None:
    """While the service is unavailable, the client makes the configured number of retries, then raises."""
    with suppress(anthropic.InternalServerError):
        away = client(unavailable_url, max_retries=1)
        away.messages.create(messages=QUESTION, **GREEDY)
        raise AssertionError
