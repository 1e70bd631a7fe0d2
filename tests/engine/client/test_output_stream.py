"""OutputStream: each output is delivered once and in order, and merged for a slow reader."""

from __future__ import annotations

import asyncio

import pytest

from service.engine.client.output_stream import OutputStream
from service.generation.errors import EngineClosed
from service.generation.outputs.output import FinishReason, GenerationOutput, PrefillProgress, Timings, TokenLogprob
from tests.engine.fakes import read

SO_FAR = Timings(0.0, 1.0, 2.0, None)
WHOLE = Timings(0.0, 1.0, 2.0, 3.0)


def output(text: str, choice_index: int = 0, *, last: bool = False) -> GenerationOutput:
    return GenerationOutput(
        choice_index=choice_index,
        token_ids=(ord(text),),
        token_times=(float(ord(text)),),
        text=text,
        timings=WHOLE if last else SO_FAR,
        batch_size=2 if last else 1,
        text_ends=(ord(text) - 96,),
        logprobs=(TokenLogprob(ord(text), -1.0),),
        finish_reason=FinishReason.STOP_SEQUENCE if last else None,
        stop_sequence="!" if last else None,
        num_cached_tokens=3,
    )


async def test_stream_wakes_its_reader_for_each_output() -> None:
    """A reader that is fast enough gets each output separately."""
    stream = OutputStream(1)
    outputs = []
    reading = asyncio.create_task(read(stream))
    for text in "abc":
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        outputs.append(output(text, last=text == "c"))
        stream.put(outputs[-1])
    assert await reading == outputs


async def test_stream_merges_unread_outputs_by_choice() -> None:
    """A slow reader gets one output per choice, with all text, tokens and logprobs, and the end of the last output."""
    stream = OutputStream(2)
    stream.put(output("a"))
    stream.put(output("x", 1))
    stream.put(output("b"))
    stream.put(output("c", last=True))
    first = await anext(stream)
    assert first == GenerationOutput(
        choice_index=0,
        token_ids=(97, 98, 99),
        token_times=(97.0, 98.0, 99.0),
        text="abc",
        timings=WHOLE,
        batch_size=2,
        text_ends=(1, 2, 3),
        logprobs=tuple(TokenLogprob(i, -1.0) for i in (97, 98, 99)),
        finish_reason=FinishReason.STOP_SEQUENCE,
        stop_sequence="!",
        num_cached_tokens=3,
    )
    stream.put(output("y", 1, last=True))
    assert [(rest.choice_index, rest.text) for rest in await read(stream)] == [(1, "xy")]


async def test_stream_holds_one_output_per_choice() -> None:
    """The number of pending outputs does not grow, however slow the reader is."""
    stream = OutputStream(2)
    for index in range(1000):
        stream.put(output("a", last=index == 999))
        stream.put(output("b", 1, last=index == 999))
    assert [len(each.token_ids) for each in await read(stream)] == [1000, 1000]


async def test_stream_delivers_unread_outputs_before_the_error() -> None:
    """Unread text precedes an error, which is raised once, and then the stream ends."""
    stream = OutputStream(1)
    stream.put(output("a"))
    stream.end(EngineClosed("stopped"))
    stream.put(output("b"))
    stream.end(EngineClosed("again"))
    assert (await anext(stream)).text == "a"
    with pytest.raises(EngineClosed, match="stopped"):
        await anext(stream)
    assert await read(stream) == []


async def test_stream_ends_after_the_last_choice() -> None:
    """The stream ends after the last output of every choice, and ignores later outputs."""
    stream = OutputStream(2)
    stream.put(output("a", last=True))
    assert not stream.is_ended
    stream.put(output("b", 1, last=True))
    assert stream.is_ended
    stream.put(output("c"))
    stream.end(EngineClosed("late"))
    assert "".join(rest.text for rest in await read(stream)) == "ab"


async def test_stream_wakes_its_reader_at_the_end() -> None:
    """A waiting reader is woken by the end."""
    stream = OutputStream(1)
    reading = asyncio.create_task(read(stream))
    await asyncio.sleep(0)
    stream.end(EngineClosed("stopped"))
    with pytest.raises(EngineClosed):
        await reading


@pytest.mark.parametrize("is_ended", [True, False])
async def test_closed_stream_keeps_nothing(is_ended: bool) -> None:  # noqa: FBT001
    """Closing drops unread outputs and an error, and later outputs are ignored."""
    stream = OutputStream(1)
    stream.put(output("a"))
    if is_ended:
        stream.end(EngineClosed("stopped"))
    stream.close()
    stream.put(output("b", last=True))
    assert stream.is_ended
    assert await read(stream) == []


async def test_closed_stream_wakes_a_second_reader() -> None:
    """A second task that waits for an output is woken when the stream is closed."""
    stream = OutputStream(1)
    reading = asyncio.create_task(read(stream))
    await asyncio.sleep(0)
    stream.close()
    assert await reading == []


async def test_stream_does_not_merge_whole_outputs() -> None:
    """Whole outputs are delivered one by one, before later outputs of their choices."""
    stream = OutputStream(1)
    for text in "ab":
        stream.put(output(text)._replace(is_whole=True))
    stream.put(output("c"))
    stream.put(output("d", last=True))
    assert [each.text for each in await read(stream)] == ["a", "b", "cd"]


async def test_progress_precedes_outputs_and_only_the_newest_is_kept() -> None:
    """A reader of progress that is slow gets the newest of each prompt; a reader of outputs gets none."""
    streams = OutputStream(1), OutputStream(1)
    for stream in streams:
        for num_computed in (4, 8):
            stream.put_progress(PrefillProgress(0, num_computed, 0, 1.0, 2.0))
        stream.put_progress(PrefillProgress(1, 3, 0, 1.0, 2.0))
        stream.put(output("a", last=True))
        stream.put_progress(PrefillProgress(0, 9, 0, 1.0, 2.0))  # after the end
    found = [each async for each in streams[0].with_progress()]
    assert found == [PrefillProgress(0, 8, 0, 1.0, 2.0), PrefillProgress(1, 3, 0, 1.0, 2.0), output("a", last=True)]
    assert await read(streams[1]) == [output("a", last=True)]
