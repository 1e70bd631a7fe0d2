"""EmbeddingService on a real server: its vectors, its errors, and cancellation."""

from __future__ import annotations

import logging
from typing import Any

import grpc
import numpy as np
import pytest
from sluice.v1 import embedding_pb2, model_pb2, serving_pb2

from service.contract.encodings.embedding import to_texts
from service.engine.client.embedder import EmbedderClient
from service.generation.stats import EngineStats
from service.loading.model import load_model
from service.registry.description import Task
from service.registry.models import ServedEncoder
from service.settings.bundled_models import EMBEDDING_NAME
from service.settings.config import Settings
from tests.engine.encoder_fakes import BEGIN, FINISH
from tests.engine.fakes import until
from tests.engine.vectors import vector_of
from tests.service.encoder_fakes import ENCODER, RunningEncoder, embed, running_encoder
from tests.service.fakes import MODEL, rejection_of, request
from tests.service.observability.test_observation import samples

LONG = "x" * 15  # one above the limit with the tokens around it


def framed(text: str) -> list[int]:
    return [BEGIN, *text.encode(), FINISH]


async def test_embed_returns_vectors_in_the_order_of_the_inputs() -> None:
    """Vectors are in the order of the inputs, with the model's own name, an id and the tokens of all framed inputs."""
    async with running_encoder() as run:
        request = embed("ab", "hello")
        request.inputs.add(token_ids={"ids": [7, 8]})
        first: embedding_pb2.EmbedResponse = await run.embeddings.Embed(request)
        second: embedding_pb2.EmbedResponse = await run.embeddings.Embed(request)
    assert [each.index for each in first.embeddings] == [0, 1, 2]
    assert [list(each.values) for each in first.embeddings] == [
        vector_of(framed("ab")),
        vector_of(framed("hello")),
        vector_of([7, 8]),
    ]
    assert (first.model, first.usage.prompt_tokens, first.usage.completion_tokens) == (ENCODER, 4 + 7 + 2, 0)
    assert first.created.seconds > 0
    assert first.id != second.id
    assert first.embeddings == second.embeddings


async def test_embed_truncates_vectors_to_dimensions() -> None:
    """The leading components are returned, normalized to unit length."""
    async with running_encoder() as run:
        response = await run.embeddings.Embed(embed("ab", dimensions=2))
    length, total, *_ = vector_of(framed("ab"))
    expected = np.array([length, total]) / np.hypot(length, total)
    assert list(response.embeddings[0].values) == pytest.approx(expected)


async def test_embed_puts_the_instruction_before_each_text() -> None:
    """The instruction is prepended to each text, and its tokens are counted for each."""
    async with running_encoder() as run:
        response = await run.embeddings.Embed(embed("a", "b", instruction="do "))
    assert [list(each.values) for each in response.embeddings] == [vector_of(framed(f"do {each}")) for each in "ab"]
    assert response.usage.prompt_tokens == 12


async def test_embed_truncates_on_request() -> None:
    """The end of the text is cut off, and not counted."""
    serving = serving_pb2.ServingOptions(error_behavior=serving_pb2.ERROR_BEHAVIOR_TRUNCATE)
    async with running_encoder() as run:
        response = await run.embeddings.Embed(embed(LONG, serving=serving))
    assert list(response.embeddings[0].values) == vector_of(framed("x" * 14))
    assert response.usage.prompt_tokens == 16


@pytest.mark.parametrize(
    ("fields", "reason", "field"),
    [
        ({"model": ""}, "INVALID_FIELD", "model"),
        ({"inputs": []}, "INVALID_FIELD", "inputs"),
        ({"inputs": [{"text": "a"}] * 2049}, "INVALID_FIELD", "inputs"),
        ({"inputs": [{}]}, "INVALID_FIELD", "inputs[0].prompt"),
        ({"inputs": [{"text": "a"}, {"text": ""}]}, "INVALID_FIELD", "inputs[1].text"),
        ({"inputs": [{"token_ids": {}}]}, "INVALID_FIELD", "inputs[0].token_ids.ids"),
        ({"inputs": [{"text": "a"}, {"token_ids": {"ids": [258]}}]}, "INVALID_FIELD", "inputs[1]"),
        ({"inputs": [{"text": "a"}, {"text": LONG}]}, "PROMPT_TOO_LONG", "inputs[1]"),
        ({"inputs": [{"token_ids": {"ids": [1] * 17}}]}, "PROMPT_TOO_LONG", "inputs[0]"),
        ({"dimensions": 0}, "INVALID_FIELD", "dimensions"),
        ({"dimensions": 5}, "INVALID_FIELD", "dimensions"),
        ({"instruction": "x" * 16_385}, "INVALID_FIELD", "instruction"),
        ({"instruction": "x", "inputs": [{"token_ids": {"ids": [1]}}]}, "INVALID_FIELD", "instruction"),
        ({"serving": {"priority": 101}}, "INVALID_FIELD", "serving.priority"),
        ({"model": MODEL}, "UNSUPPORTED_TASK", "model"),
    ],
)
async def test_embed_rejects_bad_input(fields: dict[str, Any], reason: str, field: str) -> None:
    """A request is rejected with INVALID_ARGUMENT and the field; nothing is computed, and the next request succeeds."""
    async with running_encoder() as run:
        rejection = await rejection_of(run.embeddings.Embed(embed(**{"inputs": [{"text": "a"}], **fields})))
        assert not run.runner.batches
        assert await run.embeddings.Embed(embed("a"))
    assert (rejection.code, rejection.info.reason) == (grpc.StatusCode.INVALID_ARGUMENT, reason)
    assert rejection.fields[0][0] == field


async def test_embed_reports_the_lengths_of_a_long_text() -> None:
    """The error has the lengths as numbers, for clients that format their own texts."""
    async with running_encoder() as run:
        rejection = await rejection_of(run.embeddings.Embed(embed(LONG)))
    assert {**rejection.info.metadata} == {"field": "inputs[0]", "num_prompt_tokens": "17", "limit": "16"}


async def test_embed_with_an_unknown_model_is_not_found() -> None:
    """The call ends with NOT_FOUND."""
    async with running_encoder() as run:
        rejection = await rejection_of(run.embeddings.Embed(embed("a", model="nobody")))
    assert (rejection.code, rejection.info.metadata["model"]) == (grpc.StatusCode.NOT_FOUND, "nobody")


async def test_models_are_listed_in_the_order_of_the_settings() -> None:
    """Generative models come first, because many clients use the first model of the list."""
    names = ["zebra", ENCODER, "ant"]
    async with running_encoder(model=dict.fromkeys(names, "nowhere")) as run:
        listed = await run.models.ListModels(model_pb2.ListModelsRequest())
    assert [model.name for model in listed.models] == ["zebra", "ant", ENCODER]


async def test_chat_with_an_encoder_is_rejected() -> None:
    """The error is INVALID_ARGUMENT on `model`, and the list describes the encoder with its tasks."""
    async with running_encoder() as run:
        rejection = await rejection_of(run.chat.Chat(request(model=ENCODER)))
        got = await run.models.GetModel(model_pb2.GetModelRequest(model=ENCODER))
    assert (rejection.code, rejection.info.reason) == (grpc.StatusCode.INVALID_ARGUMENT, "UNSUPPORTED_TASK")
    assert rejection.fields[0][0] == "model"
    assert (list(got.model.tasks), got.model.embedding_dimensions) == (
        [model_pb2.TASK_EMBEDDING, model_pb2.TASK_RANK],
        4,
    )


async def spans_of(run: RunningEncoder, num: int) -> dict[str, Any]:
    await until(lambda: len(run.spans.get_finished_spans()) >= num)
    return {span.name: span for span in run.spans.get_finished_spans()}


@pytest.mark.slow
async def test_embedding_is_recorded_in_telemetry(caplog: pytest.LogCaptureFixture) -> None:
    """The span has stages, and histograms, engine metrics and the log line are recorded, without any text."""
    labels = {
        "gen_ai_operation_name": "embeddings",
        "gen_ai_request_model": ENCODER,
        "gen_ai_token_type": "input",
    }
    with caplog.at_level(logging.INFO):
        async with running_encoder() as run:
            response = await run.embeddings.Embed(embed("ab", "c", dimensions=2))
            spans = await spans_of(run, 4)
            usage = samples(run, "gen_ai_client_token_usage_sum")  # type: ignore[arg-type]  # it has a telemetry
            durations = samples(run, "gen_ai_server_request_duration_seconds_count")  # type: ignore[arg-type]
            steps = samples(run, "sluice_engine_step_sequences_sum")  # type: ignore[arg-type]
            tokens = samples(run, "sluice_engine_computed_tokens_total")  # type: ignore[arg-type]
    span = spans[f"embeddings {ENCODER}"]
    attributes = dict(span.attributes)
    assert attributes.pop("sluice.cost.compute") > 0
    assert attributes.pop("sluice.cost.block") == 0
    assert attributes == {
        "gen_ai.operation.name": "embeddings",
        "gen_ai.provider.name": "sluice",
        "gen_ai.request.model": ENCODER,
        "gen_ai.response.model": ENCODER,
        "gen_ai.response.id": response.id,
        "gen_ai.embeddings.dimension.count": 2,
        "gen_ai.usage.input_tokens": 7,
        "sluice.endpoint": ENCODER,
        "sluice.entity": ENCODER,
        "sluice.key": "anonymous",
    }
    assert {spans[name].parent.span_id for name in ("queue", "encode")} == {span.context.span_id}
    ((found, value),) = usage.items()
    assert labels.items() <= set(found)
    assert value == 7
    assert list(durations.values()) == [1]
    own = frozenset({("gen_ai_request_model", ENCODER)})
    assert (steps[own], tokens[own]) == (2, 7)
    (fields,) = [vars(record)["fields"] for record in caplog.records if record.name == "sluice.access"]
    assert (fields["model"], fields["prompt_tokens"]) == (ENCODER, 7)
    assert "completion_tokens" not in fields


@pytest.mark.slow
async def test_failed_embedding_is_recorded_with_its_error() -> None:
    """The span and the histogram have the error type."""
    async with running_encoder() as run:
        await rejection_of(run.embeddings.Embed(embed(LONG)))
        spans = await spans_of(run, 2)
        (labels,) = samples(run, "gen_ai_server_request_duration_seconds_count")  # type: ignore[arg-type]
    assert spans[f"embeddings {ENCODER}"].attributes["error.type"] == "PromptTooLong"
    assert dict(labels)["error_type"] == "PromptTooLong"


class IgnoringObserver:
    """A step observer that ignores all steps."""

    def on_step(self, stats: EngineStats) -> None:
        """Ignore the step."""


@pytest.mark.slow
async def test_bundled_encoder_is_loaded_by_its_folder() -> None:
    """The second model of the default settings is an encoder, and its vectors distinguish similar from other texts."""
    _, settings = Settings(device="cpu").served_models()
    model = load_model(settings, IgnoringObserver())
    assert isinstance(model, ServedEncoder)
    description = model.description
    assert (description.name, list(description.tasks)) == (EMBEDDING_NAME, [Task.EMBEDDING, Task.RANK])
    assert (description.architecture, description.embedding_dimensions) == ("BertModel", 384)
    assert (description.max_model_len, description.vocab_size) == (256, 30522)
    assert description.num_parameters == pytest.approx(22.7e6, rel=0.01)
    texts = embed("A cat sits on the mat.", "There is a kitten on the carpet.", "Interest rates were raised again.")
    assert isinstance(model.engine, EmbedderClient)
    async with model.engine as engine:
        output = await engine.embed(await model.prompts.prepare(to_texts(texts), "r"))
    cat, kitten, rates = output.vectors
    assert np.dot(cat, cat) == pytest.approx(1, abs=1e-5)
    assert np.dot(cat, kitten) > 0.4
    assert np.dot(cat, rates) < 0.2
    model.prompts.close()
