"""A whole answer is the fold of its stream."""

from __future__ import annotations

from typing import Any

from google.protobuf import timestamp_pb2
from sluice.v1 import chat_pb2, content_pb2, logprobs_pb2, new_tokens_pb2, sampling_pb2, usage_pb2

from tests.service.contract.fakes import fold

Event = chat_pb2.StreamChatResponse


def content(text: str, *token_ids: int, choice: int = 0) -> Event:
    logprobs = [logprobs_pb2.TokenLogprob(token_id=token_id) for token_id in token_ids]
    return Event(content_delta=chat_pb2.ContentDelta(choice_index=choice, text=text, logprobs=logprobs))


def call(index: int, arguments: str = "", **fields: Any) -> Event:
    return Event(tool_call_delta=chat_pb2.ToolCallDelta(tool_call_index=index, arguments=arguments, **fields))


def finished(reason: chat_pb2.FinishReason, choice: int = 0, **fields: str) -> Event:
    return Event(choice_finished=chat_pb2.ChoiceFinished(choice_index=choice, finish_reason=reason, **fields))


def test_folded_stream_equals_the_unstreamed_answer() -> None:
    """Identity, texts, calls, logprobs, ends and usage of a stream are those of the whole answer."""
    created = timestamp_pb2.Timestamp(seconds=5)
    started = chat_pb2.ChatStarted(
        id="i", created=created, model="m", system_fingerprint="f", sampling=sampling_pb2.SamplingParams(seed=1)
    )
    answer = fold(
        [
            Event(started=started),
            Event(reasoning_delta=chat_pb2.ReasoningDelta(text="hm ")),
            content("b", 7, choice=1),
            Event(reasoning_delta=chat_pb2.ReasoningDelta(text="ok")),
            content("a", 1),
            content("", 2),
            call(0, id="x", name="f"),
            call(0, '{"a":'),
            call(0, " 1}"),
            call(1, "{}", id="y", name="g"),
            finished(chat_pb2.FINISH_REASON_STOP, 1, stop_sequence="!"),
            finished(chat_pb2.FINISH_REASON_TOOL_CALLS),
            Event(usage=usage_pb2.Usage(prompt_tokens=3, completion_tokens=9)),
            Event(completed=chat_pb2.ChatCompleted()),
        ]
    )
    assert (answer.id, answer.created, answer.model, answer.system_fingerprint) == ("i", created, "m", "f")
    assert (answer.usage.prompt_tokens, answer.usage.completion_tokens) == (3, 9)
    first, second = answer.choices
    assert (first.index, first.finish_reason) == (0, chat_pb2.FINISH_REASON_TOOL_CALLS)
    assert first.message.role == content_pb2.ROLE_ASSISTANT
    assert [part.text for part in first.message.content] == ["a"]
    assert first.message.reasoning == "hm ok"
    assert [logprob.token_id for logprob in first.logprobs] == [1, 2]
    assert [(c.id, c.function.name, c.function.arguments) for c in first.message.tool_calls] == [
        ("x", "f", '{"a": 1}'),
        ("y", "g", "{}"),
    ]
    assert (second.index, second.stop_sequence, second.message.content[0].text) == (1, "!", "b")
    assert not second.message.HasField("reasoning")
    assert not first.HasField("stop_sequence")


def test_fold_keeps_tokens_and_logprobs() -> None:
    """The whole answer has the prompt's tokens and logprobs, and each choice's tokens in order."""
    events = [content("a", choice=1), content("b"), finished(chat_pb2.FINISH_REASON_STOP), content("c", choice=1)]
    for index, event in enumerate(events):
        event.tokens.CopyFrom(new_tokens_pb2.NewTokens(num_tokens=2, ids=[index, 9]))
    logprobs = chat_pb2.PromptLogprobs(logprobs=[logprobs_pb2.TokenLogprob(token_id=3)])
    started = chat_pb2.ChatStarted(prompt_token_ids=[3, 4])
    answer = fold([Event(started=started), Event(prompt_logprobs=logprobs), *events])
    assert list(answer.prompt_token_ids) == [3, 4]
    assert [each.token_id for each in answer.prompt_logprobs] == [3]
    assert [list(choice.token_ids) for choice in answer.choices] == [[1, 9, 2, 9], [0, 9, 3, 9]]


def test_answer_without_text_or_calls_has_empty_content() -> None:
    """An answer can always be sent back as a message of the conversation."""
    empty = fold([finished(chat_pb2.FINISH_REASON_LENGTH)]).choices[0]
    assert [part.text for part in empty.message.content] == [""]
    calls = fold([call(0, "{}", id="x", name="f"), finished(chat_pb2.FINISH_REASON_TOOL_CALLS)]).choices[0]
    assert not calls.message.content
