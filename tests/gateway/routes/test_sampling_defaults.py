"""The values of sampling parameters that a request omits: documented by the dialect's API, or the model's own."""

from __future__ import annotations

from typing import Any, Final

import pytest

from tests.gateway import golden_answers
from tests.gateway.conftest import Gateway
from tests.gateway.golden_service import Answers, GoldenService, golden_service

service = pytest.fixture(golden_service)

CHAT: Final[dict[str, Any]] = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}
DOCUMENTED: Final = {"temperature": "1.0", "top_p": "1.0"}
NO_TOP_K: Final = {"top_k": "0"}
CALLS: Final[dict[str, tuple[str, dict[str, Any], Answers]]] = {
    "azure": ("/chat/completions", CHAT, {**golden_answers.CHATS["text"], **golden_answers.SERVED}),
    "invocation": ("/serving-endpoints/m/invocations", CHAT | {"stream": False}, golden_answers.CHATS["text"]),
    "chat": ("/serving-endpoints/chat/completions", CHAT, golden_answers.CHATS["text"]),
    "completion": ("/serving-endpoints/completions", {"model": "m", "prompt": "a"}, golden_answers.COMPLETIONS["text"]),
    "response": ("/serving-endpoints/responses", {"model": "m", "input": "hi"}, golden_answers.response("text")),
    "mindie": (
        "/v2/models/m/generate",
        {"text_input": "a", "parameters": {"do_sample": True}},
        golden_answers.GENERATION,
    ),
}
OF_MODELS: Final[dict[str, tuple[str, dict[str, Any], Answers]]] = {
    "openai": ("/v1/chat/completions", CHAT, golden_answers.CHATS["text"]),
    "openai_completion": ("/v1/completions", {"model": "m", "prompt": "a"}, golden_answers.COMPLETIONS["text"]),
    "openai_response": ("/v1/responses", {"model": "m", "input": "hi"}, golden_answers.response("text")),
    "deployment": ("/openai/deployments/m/chat/completions", CHAT, golden_answers.CHATS["text"]),
    "anthropic": ("/v1/messages", CHAT | {"max_tokens": 9}, golden_answers.CHATS["text"]),
}


def sampling_of(service: GoldenService) -> dict[str, str]:
    """Return the sampling parameters of the last request of the service."""
    request = [note for note in service.notes if note.startswith(">>> ") and "Endpoint" not in note][-1]
    _, found, fields = request.partition("sampling {\n")
    lines = fields.partition("}")[0].splitlines() if found else []
    return dict(line.strip().split(": ") for line in lines)


@pytest.mark.parametrize("name", CALLS)
async def test_omitted_parameters_have_the_documented_defaults(
    gateway: Gateway, service: GoldenService, name: str
) -> None:
    """APIs that document the defaults of temperature and top_p get them, whatever the model's own are."""
    path, body, service.answers = CALLS[name]
    assert (await gateway.http.post(path, json=body)).status_code == 200
    assert sampling_of(service).items() >= DOCUMENTED.items()


async def test_given_parameters_are_kept(gateway: Gateway, service: GoldenService) -> None:
    """Only parameters that the request omits or sets to null have the documented value."""
    path, body, service.answers = CALLS["chat"]
    assert (await gateway.http.post(path, json=body | {"temperature": 0, "top_p": None})).status_code == 200
    assert sampling_of(service) == {"temperature": "0.0", "top_p": "1.0"} | NO_TOP_K


async def test_streams_have_the_documented_defaults_too(gateway: Gateway, service: GoldenService) -> None:
    """A streamed request has the same defaults as one that is answered whole."""
    path, body, service.answers = CALLS["chat"]
    assert (await gateway.http.post(path, json=body | {"stream": True})).status_code == 200
    assert sampling_of(service) == DOCUMENTED | NO_TOP_K


async def test_azure_documents_no_top_k(gateway: Gateway, service: GoldenService) -> None:
    """Azure's API has no `top_k`, so the model's own default applies."""
    path, body, service.answers = CALLS["azure"]
    assert (await gateway.http.post(path, json=body)).status_code == 200
    assert sampling_of(service) == DOCUMENTED


async def test_mindie_documents_more_defaults(gateway: Gateway, service: GoldenService) -> None:
    """MindIE's API also documents that repetition_penalty and typical_p are off."""
    path, body, service.answers = CALLS["mindie"]
    assert (await gateway.http.post(path, json=body)).status_code == 200
    assert sampling_of(service) == DOCUMENTED | NO_TOP_K | {"repetition_penalty": "1.0", "typical_p": "1.0"}


@pytest.mark.parametrize("name", OF_MODELS)
async def test_openai_and_anthropic_keep_the_models_defaults(
    gateway: Gateway, service: GoldenService, name: str
) -> None:
    """The OpenAI style and Anthropic's leave omitted parameters to the model."""
    path, body, service.answers = OF_MODELS[name]
    assert (await gateway.http.post(path, json=body)).status_code == 200
    assert sampling_of(service) == {}


async def test_embedding_invocation_without_sampling_parameters_succeeds(
    gateway: Gateway, service: GoldenService
) -> None:
    """An invocation that embeds is answered, although it has no parameters of sampling."""
    service.answers = golden_answers.VECTORS
    assert (await gateway.http.post("/serving-endpoints/m/invocations", json={"input": "a"})).status_code == 200


class TestModelsOwn:
    """With `sampling_defaults: model`, no dialect sets parameters that the request omits."""

    @pytest.fixture
    def flags(self) -> list[str]:
        """Leave the defaults to the model."""
        return ["--sampling-defaults", "model"]

    @pytest.mark.parametrize("name", CALLS)
    async def test_omitted_parameters_are_left_to_the_model(
        self, gateway: Gateway, service: GoldenService, name: str
    ) -> None:
        """The service receives no parameter that the caller did not send."""
        path, body, service.answers = CALLS[name]
        assert (await gateway.http.post(path, json=body)).status_code == 200
        assert sampling_of(service) == {}
