"""Cohere's own package: `rerank` of both of its APIs, its errors and its asynchronous client."""

import asyncio
from typing import Any

import cohere
from cohere.core.api_error import ApiError

ENCODER = "all-minilm-l6-v2"
DOCUMENTS = ["interest rates rose again", "a cat sleeps on the mat", "a motorway at night"]
ASKED: Any = {"model": ENCODER, "query": "a kitten", "documents": DOCUMENTS}


def check_second_api(url: str, _: str) -> None:
    """The best of all, and all of them, with the numbers in its own types."""
    client = cohere.ClientV2(base_url=url, api_key="unused")
    answer = client.rerank(**ASKED, top_n=2, max_tokens_per_doc=64)
    assert answer.results[0].index == 1
    assert len(answer.results) == 2
    assert answer.results[0].relevance_score > answer.results[1].relevance_score
    assert answer.id
    assert answer.meta.api_version.version == "2"
    assert answer.meta.tokens.input_tokens > 10


def check_first_api(url: str, _: str) -> None:
    """Documents are texts or objects, and are returned if requested."""
    client = cohere.Client(base_url=url, api_key="unused")
    documents = [DOCUMENTS[0], {"text": DOCUMENTS[1]}]
    answer = client.rerank(model=ENCODER, query="a kitten", documents=documents, return_documents=True)
    assert [(result.index, result.document.text) for result in answer.results] == [(1, DOCUMENTS[1]), (0, DOCUMENTS[0])]
    assert answer.meta.api_version.version == "1"


def check_asynchronous_client(url: str, _: str) -> None:
    """The same, several at a time."""

    async def ask() -> list[int]:
        client = cohere.AsyncClientV2(base_url=url, api_key="unused")
        answers = await asyncio.gather(*(client.rerank(**ASKED, top_n=1) for _ in range(4)))
        return [answer.results[0].index for answer in answers]

    assert asyncio.run(ask()) == [1] * 4


def check_errors(url: str, lonely_url: str) -> None:
    """Each status has its exception, which shows the text of the body."""
    client = cohere.ClientV2(base_url=url, api_key="unused")
    lonely = cohere.ClientV2(base_url=lonely_url, api_key="unused")
    no_retry: Any = {"max_retries": 0}
    for asking, fields, status, words in (
        (client, {"query": ""}, 400, "query: "),
        (client, {"documents": []}, 400, "documents: "),
        (client, {"model": "nobody"}, 404, "nobody"),
        (lonely, {}, 503, ""),
    ):
        try:
            asking.rerank(**{**ASKED, **fields}, request_options=no_retry)
        except ApiError as error:
            assert error.status_code == status, error
            assert words in error.body["message"], error
        else:
            raise AssertionError(f"no error for {fields}")
