"""Checks of the project's own Python client against the whole product, run with the oldest and the newest protobuf."""

import asyncio
import json
import pickle
import threading
from typing import Any

import grpc
import sluice_client
from sluice_client import AsyncClient, Client, methods
from sluice_client.v1 import chat_pb2, content_pb2, endpoint_pb2, model_pb2, text_generation_pb2

from tests.clients.rejecting_server import RejectingServer, served

QUESTION = "What is the capital of France?"
CITY = {"type": "object", "properties": {"city": {"type": "string", "maxLength": 30}}, "required": ["city"]}
WEATHER = sluice_client.function("get_weather", "Tells the weather of a city.", {**CITY, "additionalProperties": False})
LONG: Any = {"max_tokens": 1000, "ignore_eos": True, "temperature": 2, "n": 32}


def client(url: str, **options: Any) -> Client:
    """Return a client of Envoy."""
    return Client(url.removeprefix("http://"), **options)


def failure(call: Any) -> sluice_client.SluiceError:
    """Return the error that a call raises."""
    try:
        call()
    except sluice_client.SluiceError as error:
        return error
    raise AssertionError("nothing was raised")


def check_stream_is_the_answer(url: str, _: str) -> None:
    """A stream's pieces add up to the unstreamed answer; events are the contract's, numbered from 0."""
    with client(url) as c:
        whole = c.chat(QUESTION, temperature=0)
        events = list(c.stream_chat(QUESTION, temperature=0))
        assert "".join(c.stream_chat(QUESTION, temperature=0).text()) == whole.text != ""
    assert [event.sequence_number for event in events] == list(range(len(events)))
    assert [events[0].WhichOneof("event"), events[-1].WhichOneof("event")] == ["started", "completed"]
    assert "".join(event.content_delta.text for event in events) == whole.text
    assert whole.finish_reason == "STOP"
    assert whole.usage.completion_tokens > 0
    assert whole.message.created.ToDatetime().year >= 2026


def check_event_loop(url: str, _: str) -> None:
    """Concurrent streams on an event loop give the same text."""

    async def ask() -> None:
        async with AsyncClient(url.removeprefix("http://")) as c:
            whole = await c.chat(QUESTION, temperature=0)

            async def stream() -> str:
                return "".join([event.content_delta.text async for event in c.stream_chat(QUESTION, temperature=0)])

            assert set(await asyncio.gather(*(stream() for _ in range(5)))) == {whole.text}
            assert "".join([piece async for piece in c.stream_chat(QUESTION, temperature=0).text()]) == whole.text
            assert (await c.complete("One, two,", max_tokens=4, temperature=0)).text
            assert (await c.respond(QUESTION, temperature=0)).text == whole.text
            assert await c.detokenize(await c.tokenize(QUESTION), skip_special_tokens=True) == QUESTION
            assert len((await c.embed(["a cat", "a dog"]))[1]) == 384
            assert await c.count_tokens(QUESTION) == whole.usage.prompt_tokens
            assert "sluice-demo" in [model.name for model in await c.models()]
            try:
                await c.chat(QUESTION, temperature=3)
            except sluice_client.InvalidRequestError as error:
                assert error.field == "sampling.temperature"
            else:
                raise AssertionError("nothing was raised")

    asyncio.run(ask())


def check_every_task(url: str, _: str) -> None:
    """Completions, responses, embeddings, tokens and models work without a model's name."""
    with client(url) as c:
        completion = c.complete(["One, two,", "A, B,"], max_tokens=4, temperature=0)
        assert len(completion.texts) == 2
        assert completion.finish_reason == "LENGTH"
        assert "".join(c.stream_complete("One, two,", max_tokens=4, temperature=0).text()) == completion.text
        ids = c.tokenize("One, two,")
        assert c.complete(ids, max_tokens=4, temperature=0).text == completion.text
        response = c.respond(QUESTION, temperature=0, max_tokens=20, instructions="Be brief.", metadata={"a": "b"})
        assert response.message.metadata == {"a": "b"}
        assert response.text
        assert "".join(c.stream_response(QUESTION, temperature=0).text()) == c.chat(QUESTION, temperature=0).text
        request = text_generation_pb2.GenerateTextRequest(model="sluice-demo", text_input="One, two,")
        assert (
            "".join(c.stream(methods.STREAM_GENERATE_TEXT, request).text())
            == c.call(methods.GENERATE_TEXT, request).text
        )
        vector = c.embed("a cat", dimensions=8)[0]
        assert len(vector) == 8
        ranked = c.rank("a cat", ["a stone", "a kitten"])
        assert [each.index for each in ranked] == [1, 0]
        assert c.detokenize(ids) == "One, two,"
        assert model_pb2.TASK_CHAT in c.models()[0].tasks
        assert c.call(methods.LIST_ENDPOINTS, endpoint_pb2.ListEndpointsRequest()).endpoints


def check_options_reach_the_service(url: str, _: str) -> None:
    """The first event echoes every option, in whichever message of the contract it is."""
    with client(url) as c, c.stream_chat(
        [{"role": "system", "content": "Be brief."}, sluice_client.message("user", QUESTION)],
        temperature=0.5, top_p=0.9, top_k=7, seed=11, logit_bias={5: -1.5}, max_tokens=9, stop="\n\n\n", top_logprobs=2,
        priority=3, cache_salt="s", n=2, reasoning_effort="none",
    ) as stream:  # fmt: skip
        events = list(stream)
    started = events[0].started
    assert (started.sampling.temperature, started.sampling.top_k, started.sampling.seed) == (0.5, 7, 11)
    assert dict(started.sampling.logit_bias) == {5: -1.5}
    assert (started.stopping.max_tokens, list(started.stopping.stop)) == (9, ["\n\n\n"])
    assert {event.content_delta.choice_index for event in events} == {0, 1}
    assert any(event.content_delta.logprobs for event in events)


def check_unknown_option_is_rejected(url: str, _: str) -> None:
    """An option that the contract doesn't have raises an error immediately."""
    with client(url) as c:
        try:
            c.chat(QUESTION, temprature=0.5)  # type: ignore[call-arg]
        except TypeError as error:
            assert "temprature" in str(error)
        else:
            raise AssertionError("nothing was raised")


def check_output_follows_a_schema(url: str, _: str) -> None:
    """Output follows a JSON schema, or is one of several texts."""
    with client(url) as c:
        assert set(json.loads(c.chat(QUESTION, json_schema={**CITY, "additionalProperties": False}).text)) == {"city"}
        assert c.chat(QUESTION, one_of=["yes", "no"]).text in {"yes", "no"}
        assert c.chat(QUESTION, regex="[0-9]{3}").text.isdigit()
        assert c.chat(QUESTION, json_object=True, max_tokens=9).text.startswith("{")


def check_tool_call_and_result(url: str, _: str) -> None:
    """A required call has arguments that match its schema, and its result can be sent back."""
    with client(url) as c:
        request = sluice_client.message("user", "What is the weather in Paris?")
        answer = c.chat([request], tools=[WEATHER], tool_choice="required", temperature=0)
        assert answer.finish_reason == "TOOL_CALLS"
        (call,) = answer.tool_calls
        assert call.function.name == "get_weather"
        assert set(json.loads(call.function.arguments)) == {"city"}
        named = c.chat([request], tools=[WEATHER], tool_choice="get_weather", temperature=0)
        assert named.tool_calls[0].function.name == "get_weather"
        result = sluice_client.tool_result(call, "Sunny.")
        assert c.chat([request, answer.turn, result], tools=[WEATHER], temperature=0).text


def check_error_names_field_and_reason(url: str, _: str) -> None:
    """An error has the field, the reason and the rule; all errors are of the client's own types."""
    with client(url) as c:
        error = failure(lambda: c.chat(QUESTION, temperature=3))
        assert isinstance(error, sluice_client.InvalidRequestError)
        assert (error.reason, error.field) == ("INVALID_FIELD", "sampling.temperature")
        assert error.request_id
        assert error.metadata["value"] == "3"
        assert error.violations[0].rule in {"float.gte_lte", ""}  # older releases of google.rpc have no rule
        assert str(error).startswith("INVALID_ARGUMENT INVALID_FIELD: sampling.temperature")
        error = failure(lambda: list(c.stream_chat(QUESTION, max_tokens=0)))
        assert error.field == "stopping.max_tokens"
        error = failure(lambda: c.chat(QUESTION, model="nobody"))
        assert isinstance(error, sluice_client.NotFoundError)
        assert (error.reason, error.metadata) == ("MODEL_NOT_FOUND", {"model": "nobody"})


def check_deadline(url: str, _: str) -> None:
    """A deadline ends calls and streams; a stream's events before it are received."""
    with client(url) as c:
        assert isinstance(failure(lambda: c.chat(QUESTION, timeout=0.2, **LONG)), sluice_client.DeadlineExceededError)
        pieces: list[str] = []
        timeout_s = 0.3
        while not pieces:  # a deadline that passes before the first token proves nothing
            stream = c.stream_chat(QUESTION, timeout=timeout_s, **LONG).text()
            assert isinstance(failure(lambda: pieces.extend(stream)), sluice_client.DeadlineExceededError)  # noqa: B023
            timeout_s *= 2
    with client(url, timeout=0.2) as c:
        assert failure(lambda: c.chat(QUESTION, **LONG)).code is grpc.StatusCode.DEADLINE_EXCEEDED


def check_cancelled_stream(url: str, _: str) -> None:
    """Leaving the block stops the generation, and so does `cancel` from another thread."""
    with client(url) as c:
        with c.stream_chat(QUESTION, **LONG) as stream:
            assert len([next(stream) for _ in range(4)]) == 4
        stream = c.stream_chat(QUESTION, **LONG)
        next(stream)
        threading.Thread(target=stream.cancel).start()
        assert isinstance(failure(lambda: list(stream)), sluice_client.CancelledError)

    async def leave() -> None:
        async with AsyncClient(url.removeprefix("http://")) as c, c.stream_chat(QUESTION, **LONG) as stream:
            async for _ in stream:
                break

    async def cancel() -> None:
        async with AsyncClient(url.removeprefix("http://")) as c:
            stream = c.stream_chat(QUESTION, **LONG)
            await anext(stream)
            asyncio.get_running_loop().call_later(0.05, stream.cancel)
            try:
                [event async for event in stream]
            except sluice_client.CancelledError:
                return
        raise AssertionError("nothing was raised")

    asyncio.run(leave())
    asyncio.run(cancel())


def check_no_server(_: str, __: str) -> None:
    """Without a server, calls fail with UNAVAILABLE, or with `wait_for_ready` at the deadline."""
    with Client("127.0.0.1:1", timeout=240) as c:
        assert isinstance(failure(lambda: c.chat(QUESTION, model="m")), sluice_client.UnavailableError)
    with Client("127.0.0.1:1", timeout=0.3, wait_for_ready=True) as c:
        assert isinstance(failure(lambda: c.chat(QUESTION, model="m")), sluice_client.DeadlineExceededError)


def check_urls_with_a_path_are_rejected(_: str, __: str) -> None:
    """Parts of a URL that gRPC can't use are rejected immediately, instead of being resolved as a host."""
    for url in ("https://host/v1", "http://host:80/v1/chat", "http://user@host", "https://host?x=1"):
        try:
            Client(url)
        except ValueError as error:
            assert url in str(error)
        else:
            raise AssertionError(url)
    for url in ("http://127.0.0.1:1/", "http://127.0.0.1", "127.0.0.1:1", "dns:///host:1"):
        Client(url).close()


def check_messages_can_be_pickled(_: str, __: str) -> None:
    """Messages can be pickled, like those of protoc's code."""
    request = chat_pb2.ChatRequest(model="m", messages=[content_pb2.Message(role=content_pb2.ROLE_USER)])
    assert pickle.loads(pickle.dumps(request)) == request  # noqa: S301  its own


def check_rejections_are_retried_after_the_servers_delay(_: str, __: str) -> None:
    """A temporary rejection is retried, with four attempts in all, and never if the server forbids it."""
    server = RejectingServer(3, "20")
    with served(server) as target, Client(target, key="sk-1", metadata={"x-request-id": "abc"}) as c:
        assert c.chat(QUESTION, model="a b").message.model == "a b"
        assert server.num_calls == 4
        sent = {name: server.metadata[name] for name in ("authorization", "x-request-id", "x-sluice-model")}
        assert sent == {"authorization": "Bearer sk-1", "x-request-id": "abc", "x-sluice-model": "a%20b"}
    for pushback, num_rejections, num_calls in (("-1", 1, 1), ("10", 9, 4)):
        server = RejectingServer(num_rejections, pushback)
        with served(server) as target, Client(target) as c:
            error = failure(lambda: c.chat(QUESTION, model="m"))
            assert isinstance(error, sluice_client.OverloadedError)
            assert (error.reason, error.retry_delay) == ("QUEUE_FULL", 0.25)
            assert server.num_calls == num_calls


def check_trace_is_passed_on(_: str, __: str) -> None:
    """The current trace is sent if OpenTelemetry is installed; calls also work without it."""
    try:
        from opentelemetry import trace  # noqa: PLC0415
        from opentelemetry.sdk.trace import TracerProvider  # noqa: PLC0415
    except ImportError:
        return
    server = RejectingServer(0, "")
    with served(server) as target, Client(target) as c:
        with TracerProvider().get_tracer("t").start_as_current_span("outer") as span:
            c.chat(QUESTION, model="m")
        assert trace.format_trace_id(span.get_span_context().trace_id) in server.metadata["traceparent"]
