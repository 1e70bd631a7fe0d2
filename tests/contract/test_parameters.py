"""Every parameter of a chat has its documented effect over every transport; one that is ignored fails a test."""

from __future__ import annotations

from collections.abc import Iterator

import grpc
import httpx
import pytest
from sluice.v1 import watermark_pb2, watermark_pb2_grpc

from tests.contract.parameters import GREEDY, ROWS, WILD, Row
from tests.contract.transports import Answer, StreamedGrpc, StreamedRest, Transport, WholeRest
from tests.e2e.stack import Stack
from tests.waiting import GUARD_S

TRANSPORTS = ("rest", "sse", "grpc")


@pytest.fixture(scope="module")
def transports(stack: Stack) -> Iterator[dict[str, Transport]]:
    """The transports: whole answers over REST, streamed answers over REST, and streams over gRPC."""
    target = f"127.0.0.1:{stack.ports['service']}"
    with httpx.Client(base_url=stack.gateway, timeout=GUARD_S) as client, grpc.insecure_channel(target) as channel:
        each = (WholeRest(client), StreamedRest(client), StreamedGrpc(channel))
        yield dict(zip(TRANSPORTS, each, strict=True))


@pytest.fixture(params=TRANSPORTS)
def transport(request: pytest.FixtureRequest, transports: dict[str, Transport]) -> Transport:
    return transports[request.param]


@pytest.mark.parametrize("row", ROWS, ids=[row.name for row in ROWS])
def test_parameter_has_its_effect(transport: Transport, row: Row) -> None:
    """The row's property holds with the parameter, and does not hold without it."""
    reference = transport.ask(**row.reference)
    given = row.given if isinstance(row.given, dict) else row.given(reference)
    assert row.holds(transport.ask(**row.base | given), reference)
    assert not _holds(row, transport.ask(**row.base), reference)


def _holds(row: Row, answer: Answer, reference: Answer) -> bool:
    try:
        return row.holds(answer, reference)
    except ValueError:  # not JSON
        return False


def test_transports_give_the_same_answer(transports: dict[str, Transport]) -> None:
    """A request with a seed has the same answer whole, streamed and over gRPC."""
    first, *others = [
        transport.ask(**WILD, logprobs=True, top_logprobs=2, n=2).choices for transport in transports.values()
    ]
    assert len(first) == 2
    for index, choice in first.items():
        for other in others:
            assert (choice.text, choice.finish) == (other[index].text, other[index].finish)
            assert [token.data for token in choice.tokens] == [token.data for token in other[index].tokens]


def test_cached_tokens_are_reported(transport: Transport, request: pytest.FixtureRequest) -> None:
    """The second time, most of a long prompt is read from the cache, and the answer is the same."""
    text = f"{request.node.name}: " + "one two three four five six seven eight nine ten " * 8
    fields = GREEDY | {"messages": [{"role": "user", "content": text}]}
    first, second = transport.ask(**fields), transport.ask(**fields)
    assert first.cached_tokens < 32
    assert 0.8 * second.prompt_tokens < second.cached_tokens < second.prompt_tokens
    assert first.choices == second.choices


@pytest.mark.parametrize("options", [{}, {"stream_options": {"include_usage": False}}])
def test_usage_is_streamed_only_if_requested(stack: Stack, options: dict[str, object]) -> None:
    """Without `include_usage` no chunk has a usage; with it, as the transports check, the last chunk has one."""
    body = {"model": "sluice-demo", "messages": [{"role": "user", "content": "hi"}], "stream": True, **GREEDY}
    answer = httpx.post(f"{stack.gateway}/v1/chat/completions", json=body | options, timeout=GUARD_S)
    assert answer.text.endswith("data: [DONE]\n\n")
    assert '"usage"' not in answer.text


def test_watermark_is_found_in_the_products_text(transports: dict[str, Transport], stack: Stack) -> None:
    """The z score of the running product's text is above 4 with the watermark, and below without."""
    scores = []
    with grpc.insecure_channel(f"127.0.0.1:{stack.ports['service']}") as channel:
        stub = watermark_pb2_grpc.WatermarkServiceStub(channel)
        for is_marked in (True, False):
            fields = WILD | {"logit_bias": {}, "max_tokens": 100, "n": 10, "watermark": is_marked}
            texts = [choice.text for choice in transports["rest"].ask(**fields).choices.values()]
            request = watermark_pb2.DetectWatermarkRequest(model="sluice-demo", text="\n".join(texts))
            scores.append(stub.DetectWatermark(request, timeout=GUARD_S))
    marked, plain = scores
    assert marked.z_score > 4
    assert abs(plain.z_score) < 4
    assert marked.num_tokens > 100
