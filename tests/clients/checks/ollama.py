"""Ollama's own package for Python: chats, generations, embeddings, models and errors."""

import asyncio
import sys
from pathlib import Path
from typing import Any

sys.path[:] = [each for each in sys.path if Path(each) != Path(__file__).parent]  # this file has the package's name
import ollama  # noqa: E402

MODEL = "sluice-demo"
ENCODER = "all-minilm-l6-v2"
QUESTION: Any = [{"role": "user", "content": "Hello! Who are you?"}]
GREEDY: Any = {"model": MODEL, "options": {"temperature": 0, "num_predict": 30}}


def get_weather(city: str) -> str:
    """Return the weather of a city.

    Args:
        city: The city's name.
    """
    return f"It is sunny in {city}."


def check_stream_equals_the_unstreamed_chat(url: str, _: str) -> None:
    """The streamed pieces add up to the unstreamed answer; counts are equal, and durations consistent."""
    client = ollama.Client(host=url)
    whole = client.chat(messages=QUESTION, **GREEDY)
    parts = list(client.chat(messages=QUESTION, stream=True, **GREEDY))
    assert "".join(part.message.content or "" for part in parts) == whole.message.content != ""
    assert [part.done for part in parts] == [*[False] * (len(parts) - 1), True]
    for last in (whole, parts[-1]):
        assert last.done_reason in {"stop", "length"}
        assert last.prompt_eval_count is not None
        assert last.prompt_eval_count > 5
        assert last.eval_count == whole.eval_count
        durations = [last.load_duration, last.prompt_eval_duration, last.eval_duration]
        assert all(each is not None and each > 0 for each in durations), durations
        assert last.total_duration == sum(each or 0 for each in durations)
    assert whole.created_at
    cut = client.chat(model=f"{MODEL}:latest", messages=QUESTION, options={"num_predict": 2})
    assert (cut.model, cut.eval_count, cut.done_reason) == (f"{MODEL}:latest", 2, "length")


def check_answer_is_valid_history(url: str, _: str) -> None:
    """An answer can be sent back unchanged, after a system message."""
    client = ollama.Client(host=url)
    messages: Any = [{"role": "system", "content": "Be brief."}, *QUESTION]
    answer = client.chat(messages=messages, **GREEDY)
    messages = [*messages, answer.message, {"role": "user", "content": "And now?"}]
    assert client.chat(messages=messages, **GREEDY).message.content


def check_tools(url: str, _: str) -> None:
    """A Python function is offered as a tool; a history with a call and its result is accepted."""
    client = ollama.Client(host=url)
    messages: Any = [{"role": "user", "content": "What is the weather in Oslo?"}]
    answer = client.chat(messages=messages, tools=[get_weather], **GREEDY)
    function = ollama.Message.ToolCall.Function(name="get_weather", arguments={"city": "Oslo"})
    calls = answer.message.tool_calls or [ollama.Message.ToolCall(function=function)]
    result = {"role": "tool", "tool_name": "get_weather", "content": get_weather(str(calls[0].function.arguments))}
    called = ollama.Message(role="assistant", tool_calls=calls)
    final = client.chat(messages=[*messages, called, result], tools=[get_weather], **GREEDY)
    assert final.message.content or final.message.tool_calls


def check_formats_and_logprobs(url: str, _: str) -> None:
    """JSON matches its schema; log probabilities belong to the tokens of the text."""
    client = ollama.Client(host=url)
    schema: Any = {"type": "object", "properties": {"city": {"enum": ["Oslo"]}}, "required": ["city"]}
    answer = client.chat(messages=QUESTION, format={**schema, "additionalProperties": False}, **GREEDY)
    assert (answer.message.content or "").replace(" ", "") == '{"city":"Oslo"}'
    answer = client.chat(messages=QUESTION, logprobs=True, top_logprobs=2, **GREEDY)
    assert "".join(each.token for each in answer.logprobs or ()).startswith((answer.message.content or "")[:5])
    assert all(len(each.top_logprobs or ()) == 2 for each in answer.logprobs or ())
    parts = list(client.chat(messages=QUESTION, logprobs=True, stream=True, **GREEDY))
    assert sum(len(part.logprobs or ()) for part in parts) == len(answer.logprobs or ())


def check_generate(url: str, _: str) -> None:
    """A prompt in the chat template equals the chat with it; raw prompts are continued; no prompt loads the model."""
    client = ollama.Client(host=url)
    messages: Any = [{"role": "system", "content": "Be brief."}, *QUESTION]
    text = client.chat(messages=messages, **GREEDY).message.content
    prompt = QUESTION[0]["content"]
    assert client.generate(prompt=prompt, system="Be brief.", **GREEDY).response == text
    parts = client.generate(prompt=prompt, system="Be brief.", stream=True, **GREEDY)
    assert "".join(part.response or "" for part in parts) == text
    raw = client.generate(prompt="One, two,", raw=True, **GREEDY)
    assert raw.response != text
    assert raw.prompt_eval_count is not None
    assert raw.prompt_eval_count < 10
    loaded = client.generate(model=MODEL, keep_alive="5m")
    assert (loaded.done, loaded.done_reason, loaded.response) == (True, "load", "")
    assert client.chat(model=MODEL).done_reason == "load"


def check_embeddings(url: str, _: str) -> None:
    """Several texts, one text, the older method, and fewer dimensions than the model has are answered or rejected."""
    client = ollama.Client(host=url)
    two = client.embed(model=ENCODER, input=["a cat", "a dog"])
    assert [len(vector) for vector in two.embeddings] == [384, 384]
    assert two.prompt_eval_count is not None
    assert two.prompt_eval_count > 4
    one = client.embed(model=ENCODER, input="a cat").embeddings[0]
    old = client.embeddings(model=ENCODER, prompt="a cat").embedding
    assert max(abs(x - y) for x, y in zip(one, two.embeddings[0], strict=True)) < 1e-4
    assert max(abs(x - y) for x, y in zip(one, old, strict=True)) < 1e-4


def check_models(url: str, _: str) -> None:
    """Lists have names with a tag; a description has the context length and the capabilities."""
    client = ollama.Client(host=url)
    names = {each.model: each for each in client.list().models}
    assert {f"{MODEL}:latest", f"{ENCODER}:latest"} <= set(names)
    assert f"{MODEL}:latest" in {each.model for each in client.ps().models}
    demo = names[f"{MODEL}:latest"]
    assert demo.digest
    assert demo.size is not None
    assert demo.size > 1_000_000
    shown = client.show(f"{MODEL}:latest")
    info: Any = shown.modelinfo
    assert info[f"{info['general.architecture']}.context_length"] > 100
    assert "completion" in (shown.capabilities or ())
    assert "embedding" in (client.show(ENCODER).capabilities or ())
    assert client.chat(messages=QUESTION, **{**GREEDY, "model": demo.model}).message.content


def check_asynchronous_client(url: str, _: str) -> None:
    """`AsyncClient`: two concurrent requests, streamed and unstreamed."""

    async def both() -> tuple[str, str]:
        client = ollama.AsyncClient(host=url)

        async def streamed() -> str:
            parts = await client.chat(messages=QUESTION, stream=True, **GREEDY)
            return "".join([part.message.content or "" async for part in parts])

        whole, text = await asyncio.gather(client.chat(messages=QUESTION, **GREEDY), streamed())
        return whole.message.content or "", text

    whole, text = asyncio.run(both())
    assert whole == text != ""


def check_errors(url: str, unavailable_url: str) -> None:
    """Errors are `ResponseError` with status and text, streamed and unstreamed; the management of models says why."""
    client = ollama.Client(host=url)
    hot: Any = {"model": MODEL, "messages": QUESTION, "options": {"temperature": 3}}
    mirostat: Any = {**hot, "options": {"mirostat": 1}}
    cases: list[tuple[Any, int, str]] = [
        (lambda: client.chat(model="nobody", messages=QUESTION), 404, "nobody"),
        (lambda: client.show("nobody"), 404, "nobody"),
        (lambda: client.generate(model="nobody"), 404, "nobody"),
        (lambda: client.chat(**hot), 400, "options.temperature"),
        (lambda: list(client.chat(**hot, stream=True)), 400, "options.temperature"),
        (lambda: client.chat(**mirostat), 400, "options.mirostat"),
        (lambda: client.generate(model=MODEL, prompt="a", context=[1]), 400, "/api/chat"),
        (lambda: client.pull("llama3.2"), 400, "sluice serve"),
        (lambda: list(client.pull("llama3.2", stream=True)), 400, "sluice serve"),
        (lambda: client.create(model="mine", from_=MODEL), 400, "options"),
        (lambda: client.copy(MODEL, "mine"), 400, "serving-endpoints"),
        (lambda: client.delete(MODEL), 400, "UnloadModel"),
        (lambda: ollama.Client(host=unavailable_url).chat(model=MODEL, messages=QUESTION), 503, ""),
    ]
    for call, status, text in cases:
        try:
            call()
        except ollama.ResponseError as error:
            assert (error.status_code, text in error.error) == (status, True), error
        else:
            raise AssertionError(f"no error with {text}")
