from __future__ import annotations

from service.engine.engine import Engine
from tests.engine.fakes import END, ByteTokenizer, PagedRunner, config_of, read, request, say, sums


async def test_engine_streams_what_the_runner_samples() -> None:
    """A stream brings the runner's tokens in order, and its last output alone has a finish reason and timings."""
    async with Engine(PagedRunner(), ByteTokenizer(), config_of(), eos_token_ids=[END]) as engine:
        async with engine.generate(request("hello", max_tokens=9)) as stream:
            outputs = await read(stream)
    assert [i for output in outputs for i in output.token_ids] == sums(b"hello", 9, 0)
    assert [output.finish_reason for output in outputs[:-1]] == [None] * (len(outputs) - 1)
    assert outputs[-1].finish_reason is not None
    assert outputs[-1].timings is not None
