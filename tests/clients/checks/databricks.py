"""Databricks' own SDK, as it calls model serving."""

import time
from typing import Any

from databricks.sdk import WorkspaceClient
from databricks.sdk.config import Config
from databricks.sdk.errors import DatabricksError, InvalidParameterValue, NotFound
from databricks.sdk.service.serving import (
    ChatMessage,
    ChatMessageRole,
    EndpointCoreConfigInput,
    Route,
    ServedEntityInput,
    TrafficConfig,
)

MODEL = "sluice-demo"
EMBEDDER = "all-minilm-l6-v2"
MESSAGES = [ChatMessage(role=ChatMessageRole.USER, content="What is the capital of France?")]


def workspace(url: str) -> WorkspaceClient:
    """A client, configured as its documentation shows, with a short retry time."""
    return WorkspaceClient(config=Config(host=url, token="unused", retry_timeout_seconds=3))  # noqa: S106  no secret


def check_chat(url: str, _: str) -> None:
    """A chat is not streamed, because the SDK sends no `stream`."""
    answer = workspace(url).serving_endpoints.query(MODEL, messages=MESSAGES, temperature=0, max_tokens=40)
    assert answer.choices
    assert answer.choices[0].message
    assert answer.choices[0].message.content


def check_completions(url: str, _: str) -> None:
    """Each of two prompts has its choices."""
    answer = workspace(url).serving_endpoints.query(MODEL, prompt=["One, two,", "Red, green,"], max_tokens=4)
    assert answer.choices
    assert [choice.index for choice in answer.choices] == [0, 1]


def check_embeddings(url: str, _: str) -> None:
    """Each text has a vector."""
    answer = workspace(url).serving_endpoints.query(EMBEDDER, input=["a cat", "a motorway"])
    assert answer.data
    assert [len(each.embedding or []) for each in answer.data] == [384, 384]


def check_errors(url: str, _: str) -> None:
    """Errors raise the SDK's typed exceptions."""
    query: Any = workspace(url).serving_endpoints.query
    for error, words, change in (
        (InvalidParameterValue, "temperature", {"temperature": 3.0}),
        (NotFound, "nobody", {"name": "nobody"}),
    ):
        try:
            query(**{"name": MODEL, "messages": MESSAGES, **change})
        except error as caught:
            assert words in str(caught), caught
        else:
            raise AssertionError(change)


def check_unavailable(_: str, unavailable_url: str) -> None:
    """While the service is unavailable, the SDK retries until its time limit, then raises."""
    began = time.monotonic()
    try:
        workspace(unavailable_url).serving_endpoints.query(MODEL, messages=MESSAGES)
    except (DatabricksError, TimeoutError):
        assert time.monotonic() - began > 0.5
    else:
        raise AssertionError


def check_endpoints(url: str, _: str) -> None:
    """Models are listed as endpoints; an endpoint for an A/B test is created, used, changed and deleted."""
    endpoints = workspace(url).serving_endpoints
    assert {MODEL, EMBEDDER} <= {endpoint.name for endpoint in endpoints.list()}
    assert endpoints.get(MODEL).task
    name = "sdk-ab-test"

    def config(*shares: int) -> dict[str, Any]:
        arms = [f"arm-{index}" for index in range(len(shares))]
        entities = [ServedEntityInput(name=arm, entity_name=MODEL, entity_version="1") for arm in arms]
        routes = [
            Route(served_model_name=arm, traffic_percentage=share) for arm, share in zip(arms, shares, strict=True)
        ]
        return {"served_entities": entities, "traffic_config": TrafficConfig(routes=routes)}

    endpoints.create(name, config=EndpointCoreConfigInput(name=name, **config(30, 70)))
    try:
        answer = endpoints.query(name, messages=MESSAGES, max_tokens=2)
        assert answer.model == MODEL
        endpoints.update_config(name, **config(100))
        made: Any = endpoints.get(name)
        assert [route.traffic_percentage for route in made.config.traffic_config.routes] == [100]
        try:
            endpoints.update_config(name, **config(50, 40))
        except InvalidParameterValue as error:
            assert "100" in str(error), error
        else:
            raise AssertionError
    finally:
        endpoints.delete(name)
    try:
        endpoints.get(name)
    except NotFound:
        pass
    else:
        raise AssertionError
