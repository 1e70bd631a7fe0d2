"""The messages of each renderer for each kind of event, and the kinds that it omits on purpose."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, get_args

import pytest
from sluice.v1 import chat_pb2, completion_pb2, new_tokens_pb2, response_pb2, text_generation_pb2

from service.contract.generations.chat import ChatRenderer
from service.contract.generations.completion import CompletionRenderer
from service.contract.generations.text_generation import TextGenerationRenderer
from service.contract.parts.answer import FINISH_REASONS, logprob_messages, usage_message
from service.contract.responses.response_renderer import ResponseRenderer
from service.generation.outputs.events import (
    ChoiceFinished,
    Completed,
    DecodedLogprob,
    Event,
    PromptLogprobs,
    PromptProgress,
    Reasoning,
    Started,
    Text,
    Tokens,
    ToolArguments,
    ToolCall,
    Usage,
)
from service.generation.outputs.output import FinishReason, Timings
from service.generation.requests.parameters import SamplingParams, StopParams

STARTED = Started(
    "i", 1_500_000_000, "m", "3", "fp", SamplingParams(seed=7), StopParams(max_tokens=9), n=1, prompt_texts=("hi",)
)
LOGPROB = DecodedLogprob(5, "é".encode()[:1], -0.5, (DecodedLogprob(6, b"a", -0.25),))
TOKENS = Tokens(0, (5,), (4.0,), Timings(1.0, 2.0, 4.0, None), 3)
# For each kind of event, the events before it, and the event.
EVENTS: dict[type, tuple[Sequence[Event], Event]] = {
    Started: ((), STARTED),
    PromptProgress: ((STARTED,), PromptProgress(9, 2, 5, 0.5)),
    Tokens: ((STARTED,), TOKENS),
    PromptLogprobs: ((STARTED,), PromptLogprobs(0, (LOGPROB,))),
    Text: ((STARTED,), Text(0, "a", (LOGPROB,))),
    Reasoning: ((STARTED,), Reasoning(0, "hm")),
    ToolCall: ((STARTED,), ToolCall(0, 0, "id", "f")),
    ToolArguments: ((STARTED, ToolCall(0, 0, "id", "f")), ToolArguments(0, 0, "{}")),
    ChoiceFinished: ((STARTED, Text(0, "a")), ChoiceFinished(0, FinishReason.LENGTH)),
    Usage: ((STARTED,), Usage(1, 2, 3, 4)),
    Completed: ((STARTED, Text(0, "a"), ChoiceFinished(0, FinishReason.END_OF_TEXT)), Completed()),
}
ITEM = ["output_item_added", "content_part_added", "output_text_delta"]
ITEM_END = ["output_text_done", "content_part_done", "output_item_done"]
# The message kinds of each event. An event without any is omitted on purpose, or is part of another event's message.
CHAT: dict[type, list[str]] = {
    Started: ["started"],
    PromptProgress: ["prompt_progress"],
    Tokens: [],  # a chat has no times
    PromptLogprobs: ["prompt_logprobs"],
    Text: ["content_delta"],
    Reasoning: ["reasoning_delta"],
    ToolCall: ["tool_call_delta"],
    ToolArguments: ["tool_call_delta"],
    ChoiceFinished: ["choice_finished"],
    Usage: ["usage"],
    Completed: ["completed"],
}
COMPLETION: dict[type, list[str]] = {
    Started: ["started"],
    PromptProgress: ["prompt_progress"],
    Tokens: ["delta"],  # the first of a choice, with the prompt's text
    PromptLogprobs: ["delta"],  # with the prompt's text
    Text: ["delta"],
    Reasoning: ["delta"],  # only the prompt's text: the answer's reasoning is part of the content
    ToolCall: ["delta"],
    ToolArguments: [],
    ChoiceFinished: ["choice_finished"],
    Usage: ["usage"],
    Completed: ["completed"],
}
RESPONSE: dict[type, list[str]] = {
    Started: ["created", "in_progress"],
    PromptProgress: [],  # SDKs check the kinds of events
    Tokens: [],
    PromptLogprobs: [],
    Text: ITEM,
    Reasoning: ["output_item_added", "reasoning_text_delta"],
    ToolCall: ["output_item_added"],
    ToolArguments: ["function_call_arguments_delta"],
    ChoiceFinished: ITEM_END,
    Usage: ["usage"],  # of a stream that ends with an error
    Completed: ["completed"],
}
TEXT_GENERATION: dict[type, list[str]] = {
    Started: ["started"],
    PromptProgress: ["prompt_progress"],
    Tokens: ["delta"],  # one for each output, with its times
    PromptLogprobs: ["delta"],
    Text: ["delta"],
    Reasoning: ["delta"],  # never for a raw prompt, whose answer is text
    ToolCall: ["delta"],
    ToolArguments: ["delta"],
    ChoiceFinished: ["finished"],
    Usage: ["usage"],
    Completed: ["completed"],
}
OUTPUT = (PromptLogprobs, Text, Reasoning, ToolCall, ToolArguments, ChoiceFinished)  # follow the tokens of a step


def renderer_of(name: str) -> Any:
    match name:
        case "chat":
            return ChatRenderer(chat_pb2.ChatRequest())
        case "completion":
            return CompletionRenderer(completion_pb2.CompleteRequest(echo=True))
        case "response":
            return ResponseRenderer(response_pb2.CreateResponseRequest())
        case _:
            return TextGenerationRenderer(text_generation_pb2.GenerateTextRequest())


def rendered(renderer: Any, event: Event) -> list[Any]:
    """Return the messages of an event, which follows its step's tokens if it is read from a step's output."""
    return list(renderer.render([TOKENS, event] if isinstance(event, OUTPUT) else [event]))


TABLES = {"chat": CHAT, "completion": COMPLETION, "response": RESPONSE, "text_generation": TEXT_GENERATION}
every_renderer = pytest.mark.parametrize("name", TABLES)


@every_renderer
def test_every_kind_of_event_is_handled(name: str) -> None:
    """A new kind of event must be rendered, or omitted on purpose, by each renderer."""
    assert set(EVENTS) == set(get_args(Event)) == set(TABLES[name])


@pytest.mark.parametrize("kind", EVENTS, ids=lambda kind: kind.__name__)
@every_renderer
def test_each_event_becomes_its_messages(name: str, kind: type) -> None:
    """The messages are those in the table, whatever came before the event."""
    renderer = renderer_of(name)
    before, event = EVENTS[kind]
    for each in before:
        rendered(renderer, each)
    assert [message.WhichOneof("event") for message in rendered(renderer, event)] == TABLES[name][kind]


@every_renderer
def test_first_message_has_identity_and_parameters(name: str) -> None:
    """The start has identity, time and parameters, with every default."""
    first = rendered(renderer_of(name), STARTED)[0]
    started = first.created.response if name == "response" else first.started
    assert (started.id, started.model) == ("i", "m")
    assert (started.sampling.seed, started.sampling.top_p, started.stopping.max_tokens) == (7, 1.0, 9)
    if name == "text_generation":
        assert started.model_version == "3"
    else:
        assert (started.system_fingerprint, started.created.seconds, started.created.nanos) == ("fp", 1, 500_000_000)


@every_renderer
def test_cost_is_rendered_field_by_field(name: str) -> None:
    """The contract's usage has the event's names."""
    renderer = renderer_of(name)
    rendered(renderer, STARTED)
    (message,) = rendered(renderer, Usage(1, 2, 3, 4))
    usage = message.usage
    assert (usage.prompt_tokens, usage.completion_tokens, usage.reasoning_tokens, usage.cached_tokens) == (1, 2, 3, 4)
    assert usage_message(Usage(1, 2, 3, 4)) == usage


def test_usage_has_every_field_of_the_contract() -> None:
    """The event and the contract's usage have the same numbers."""
    assert [field.name for field in usage_message(Usage(0)).DESCRIPTOR.fields] == list(Usage._fields)


def test_chat_messages_have_the_values_of_their_events() -> None:
    """Messages have the events' indices, texts, names and logprobs."""
    renderer = ChatRenderer(chat_pb2.ChatRequest())
    text, reasoning, call, arguments, finished = renderer.render(
        [
            Text(2, "a", (LOGPROB,)),
            Reasoning(2, "hm"),
            ToolCall(2, 1, "id", "f"),
            ToolArguments(2, 1, "{}"),
            ChoiceFinished(2, FinishReason.STOP_SEQUENCE, "!"),
        ]
    )
    delta = text.content_delta
    assert (delta.choice_index, delta.text, list(delta.logprobs)) == (2, "a", logprob_messages([LOGPROB]))
    assert (reasoning.reasoning_delta.choice_index, reasoning.reasoning_delta.text) == (2, "hm")
    head, rest = call.tool_call_delta, arguments.tool_call_delta
    assert (head.choice_index, head.tool_call_index, head.id, head.name) == (2, 1, "id", "f")
    assert not head.arguments
    assert (rest.choice_index, rest.tool_call_index, rest.arguments) == (2, 1, "{}")
    assert not rest.HasField("id")
    assert not rest.HasField("name")
    end = finished.choice_finished
    assert (end.choice_index, end.finish_reason, end.stop_sequence) == (2, chat_pb2.FINISH_REASON_STOP, "!")


COUNTED, WITH_IDS = ({"tokens": new_tokens_pb2.TokensOptions(ids=ids)} for ids in (False, True))
TWICE = replace(STARTED, prompt_token_ids=([3, 4], [5]), num_prompts=2)


def renderer_for(name: str, fields: Any) -> Any:
    """Return a renderer for a request with these fields."""
    if name == "chat":
        return ChatRenderer(chat_pb2.ChatRequest(**fields))
    return CompletionRenderer(completion_pb2.CompleteRequest(**fields))


@pytest.mark.parametrize(("fields", "ids"), [(COUNTED, []), (WITH_IDS, [5])])
@pytest.mark.parametrize("name", ["chat", "completion"])
def test_tokens_are_in_the_first_message_of_their_output(name: str, fields: Any, ids: list[int]) -> None:
    """Tokens are in the first message of their output; without text the delta is empty, without tokens it has none."""
    renderer = renderer_for(name, fields)
    rendered(renderer, STARTED)
    first, *others = renderer.render([TOKENS, Text(0, "a"), Text(0, "b"), ChoiceFinished(0, FinishReason.LENGTH)])
    assert (first.tokens.num_tokens, list(first.tokens.ids)) == (1, ids)
    assert len(others) == 2
    assert not any(message.HasField("tokens") for message in others)
    (silent,) = renderer.render([TOKENS])
    assert (silent.WhichOneof("event"), silent.tokens.num_tokens) == ("content_delta" if name == "chat" else "delta", 1)
    (cut_off,) = renderer.render([TOKENS._replace(token_ids=()), ChoiceFinished(0, FinishReason.LENGTH)])
    assert not cut_off.HasField("tokens")


@pytest.mark.parametrize("name", ["chat", "completion"])
def test_no_tokens_are_returned_unless_requested(name: str) -> None:
    """Neither the answer's nor the prompt's tokens are returned."""
    renderer = renderer_for(name, {})
    (started,) = rendered(renderer, TWICE)
    assert not started.started.prompt_token_ids
    assert not any(message.HasField("tokens") for message in renderer.render([TOKENS, Text(0, "a")]))


def test_prompts_tokens_are_returned_at_the_start() -> None:
    """A chat returns the tokens of its prompt, a completion those of each prompt; their number is always returned."""
    (chat,) = rendered(renderer_for("chat", WITH_IDS), replace(STARTED, prompt_token_ids=([3, 4],)))
    assert (list(chat.started.prompt_token_ids), chat.started.prompt_tokens) == ([3, 4], 2)
    (completion,) = rendered(renderer_for("completion", WITH_IDS), TWICE)
    assert [list(prompt.ids) for prompt in completion.started.prompt_token_ids] == [[3, 4], [5]]
    (counted,) = rendered(renderer_for("completion", {}), TWICE)
    assert list(counted.started.prompt_tokens) == [2, 1]


def test_prompt_logprobs_of_a_chat_precede_the_answers_tokens() -> None:
    """The prompt's logprobs come first, and the answer's tokens with the answer."""
    prompt, text = renderer_for("chat", WITH_IDS).render([TOKENS, PromptLogprobs(0, (LOGPROB,)), Text(0, "a")])
    assert list(prompt.prompt_logprobs.logprobs) == logprob_messages([LOGPROB])
    assert not prompt.HasField("tokens")
    assert list(text.tokens.ids) == [5]


@pytest.mark.parametrize("name", ["chat", "completion"])
def test_times_are_reported_on_request(name: str) -> None:
    """The last message has the times from the first choice to begin to the last one to end."""
    first = TOKENS._replace(timings=Timings(1.0, 2.5, 3.0, None), token_times=(3.0, 3.5))
    second = TOKENS._replace(timings=Timings(1.0, 2.0, 2.5, None), token_times=(2.5, 7.0))
    for is_requested in (False, True):
        renderer = renderer_for(name, {"serving": {"report_timings": is_requested}})
        rendered(renderer, STARTED)
        for tokens in (first, second):
            renderer.render([tokens, Text(0, "a")])
        (completed,) = rendered(renderer, Completed())
        timings = completed.completed.timings
        assert completed.completed.HasField("timings") == is_requested
        seconds = [each.ToNanoseconds() / 1e9 for each in (timings.queue_wait, timings.first_token, timings.decode)]
        assert seconds == ([1, 1.5, 4.5] if is_requested else [0, 0, 0])


def test_empty_stop_sequence_differs_from_none() -> None:
    """An empty stop sequence is different from none."""
    (message,) = ChatRenderer(chat_pb2.ChatRequest()).render([ChoiceFinished(0, FinishReason.END_OF_TEXT)])
    assert not message.choice_finished.HasField("stop_sequence")


@pytest.mark.parametrize("reason", FinishReason)
def test_every_finish_reason_is_mapped_to_the_contracts(reason: FinishReason) -> None:
    """A stop string and the end of the text have one finish reason."""
    name = "stop" if reason in {FinishReason.END_OF_TEXT, FinishReason.STOP_SEQUENCE} else reason.value
    assert chat_pb2.FinishReason.Name(FINISH_REASONS[reason]) == f"FINISH_REASON_{name.upper()}"


def test_logprob_carries_text_bytes_and_candidates() -> None:
    """Half a character appears as U+FFFD, with its exact bytes."""
    (found,) = logprob_messages([LOGPROB])
    assert (found.token, found.token_id, found.logprob, found.bytes) == ("\ufffd", 5, -0.5, b"\xc3")
    assert [(top.token, top.token_id, top.bytes, top.logprob) for top in found.top_logprobs] == [("a", 6, b"a", -0.25)]
