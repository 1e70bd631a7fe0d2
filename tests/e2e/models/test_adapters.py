"""Adapters in the whole product: from settings, and loaded by administrators at run time."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc
import httpx
import pytest
import yaml
from safetensors.numpy import load_file, save_file
from sluice.v1 import adapter_pb2, adapter_pb2_grpc, completion_pb2, completion_pb2_grpc, model_pb2, model_pb2_grpc

from service.engine.models.checkpoint.adapter_files import TENSORS
from tests.e2e.cut_streams import resumed
from tests.e2e.models.adapter_run import DEMO, NUM_TOKENS, PROMPT, TARGETS, Run, generated
from tests.e2e.stack import Stack
from tests.engine.folders import peft_adapters
from tests.waiting import GUARD_S, wait_until


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    folder = tmp_path_factory.mktemp("adapters")
    for name, values in TARGETS.items():
        peft_adapters.save_adapter(DEMO, folder / name, **values)
    settings = {
        "dtype": "float32",
        "adapters_root": str(folder),
        "models": [{"name": "demo", "path": str(DEMO), "adapters": {"french": str(folder / "french")}}],
    }
    wrong = folder / "wrong"
    shutil.copytree(folder / "terse", wrong)
    tensors = {name.replace("q_proj", "w_proj"): each for name, each in load_file(wrong / TENSORS).items()}
    save_file(tensors, wrong / TENSORS)
    config = folder / "sluice.yaml"
    config.write_text(yaml.safe_dump(settings))
    stack = Stack("--config", str(config))
    try:
        expected = {"": generated(None), **{name: generated(folder / name) for name in TARGETS}}
        assert len(set(expected.values())) == 3
        stack.wait_for("sluice is ready")
        with grpc.insecure_channel(stack.url.removeprefix("http://")) as channel:
            yield Run(stack, channel, folder, expected)
    finally:
        stack.stop()


def test_adapter_texts_equal_pefts_merged_model(run: Run) -> None:
    assert run.text("demo") == run.expected[""]
    assert run.text("demo:french") == run.expected["french"]
    assert run.text("french") == run.expected["french"]


def test_adapters_in_one_batch_do_not_affect_each_other(run: Run) -> None:
    """Adapters do not share cached prompts, and neither n nor logprobs change a text."""
    models = ["demo", "french", "demo:terse"] * 4
    with run.loaded("terse"), ThreadPoolExecutor(len(models)) as pool:
        texts = list(pool.map(lambda model: run.text(model, n=2, logprobs=1), models))
    expected = [run.expected[name] for name in ("", "french", "terse")] * 4
    assert texts == expected


def test_constraint_applies_to_an_adapter(run: Run) -> None:
    form = {"type": "json_schema", "json_schema": {"name": "n", "schema": {"enum": ["one", "two"]}, "strict": True}}
    body = {"model": "french", "messages": [{"role": "user", "content": "?"}], "response_format": form}
    answer = httpx.post(f"{run.stack.url}/v1/chat/completions", json=body, timeout=GUARD_S)
    assert answer.status_code == 200, answer.text
    assert answer.json()["choices"][0]["message"]["content"] in {'"one"', '"two"'}


def test_models_list_adapters_with_their_parents(run: Run) -> None:
    models = {each["id"]: each for each in httpx.get(f"{run.stack.url}/v1/models", timeout=GUARD_S).json()["data"]}
    assert models["demo:french"]["parent"] == "demo"
    assert models["demo:french"]["root"] == "demo"
    assert "parent" not in models["demo"]
    found = httpx.get(f"{run.stack.url}/v1/models/demo:french", timeout=GUARD_S)
    assert found.json()["id"] == "demo:french"


def test_adapter_is_served_between_load_and_unload(run: Run) -> None:
    before = run.ids()
    with run.loaded("terse") as adapter:
        assert (adapter.name, adapter.model, adapter.rank) == ("terse", "demo", 2)
        assert adapter.served.parent == "demo"
        assert adapter.served.system_fingerprint
        assert "demo:terse" in run.ids()
        assert run.text("terse") == run.expected["terse"]
        stub: Any = adapter_pb2_grpc.AdapterServiceStub(run.channel)
        listed = stub.ListAdapters(adapter_pb2.ListAdaptersRequest(model="demo")).adapters
        assert [each.name for each in listed] == ["french", "terse"]
        first = stub.ListAdapters(adapter_pb2.ListAdaptersRequest(page_size=1))
        second = stub.ListAdapters(adapter_pb2.ListAdaptersRequest(page_token=first.next_page_token))
        assert [each.name for each in (*first.adapters, *second.adapters)] == ["french", "terse"]
        assert second.next_page_token == ""
    assert run.ids() == before
    gone = httpx.post(f"{run.stack.url}/v1/completions", json={"model": "demo:terse", "prompt": "a"}, timeout=GUARD_S)
    assert gone.status_code == 404
    assert "demo:terse" in gone.json()["error"]["message"]


def test_name_of_an_unloaded_adapter_can_be_reused(run: Run) -> None:
    """The new adapter does not use the old one's cached prompts."""
    run.load("changing", "terse")
    assert run.text("changing") == run.expected["terse"]
    run.unload("changing")
    run.load("changing", "french")
    assert run.text("changing") == run.expected["french"]
    run.unload("changing")


def test_an_unload_waits_for_running_requests(run: Run) -> None:
    """A running stream completes with its adapter; new requests are rejected from the unload on."""
    stub: Any = completion_pb2_grpc.CompletionServiceStub(run.channel)
    request = completion_pb2.CompleteRequest(model="demo:terse")
    request.prompts.add().text = PROMPT
    request.sampling.temperature = 0
    request.stopping.max_tokens = NUM_TOKENS
    run.load("terse")
    stream = stub.StreamComplete(request)
    first = next(stream)
    run.unload("terse")
    assert "".join(each.delta.text for each in (first, *stream)) == run.expected["terse"]


def test_a_stream_of_an_adapter_is_resumed(run: Run) -> None:
    """A stream resumes in another batch, but not once its name means another adapter."""
    stub: Any = completion_pb2_grpc.CompletionServiceStub(run.channel)
    request = completion_pb2.CompleteRequest(model="demo:going")
    request.prompts.add().text = PROMPT
    request.sampling.temperature = 0
    request.stopping.max_tokens = NUM_TOKENS
    run.load("going", "terse")
    events = list(stub.StreamComplete(request))
    rest = resumed(request, events[: len(events) // 2])
    with ThreadPoolExecutor(2) as pool:
        others = [pool.submit(run.text, model) for model in ("demo", "french")]
        joined = [*events[: len(events) // 2], *stub.StreamComplete(rest)]
        assert [each.result() for each in others] == [run.expected[""], run.expected["french"]]
    assert "".join(each.delta.text for each in joined) == run.expected["terse"]
    run.unload("going")
    run.load("going", "french")
    with pytest.raises(grpc.RpcError, match="can't be resumed: its system_fingerprint"):
        list(stub.StreamComplete(rest))
    run.unload("going")


def test_an_adapter_is_loaded_again_after_its_worker_has_died(run: Run) -> None:
    with run.loaded("terse"):
        (worker,) = run.stack.workers()
        os.kill(worker, signal.SIGKILL)
        wait_until(lambda: run.stack.workers() not in ([], [worker]))
        wait_until(lambda: _answers(run, "terse"))
        assert run.text("terse") == run.expected["terse"]
        assert run.text("french") == run.expected["french"]


def _answers(run: Run, model: str) -> bool:
    body = {"model": model, "prompt": "a", "max_tokens": 1}
    return httpx.post(f"{run.stack.url}/v1/completions", json=body, timeout=GUARD_S).status_code == 200


ERRORS: dict[str, tuple[Callable[[Run], object], grpc.StatusCode, str]] = {
    "an unknown model": (lambda run: run.load("terse", model="other"), grpc.StatusCode.NOT_FOUND, "'other'"),
    "a name that is taken": (lambda run: run.load("french"), grpc.StatusCode.ALREADY_EXISTS, "'french' is taken"),
    "a model's name": (lambda run: run.load("demo", "terse"), grpc.StatusCode.ALREADY_EXISTS, "'demo' is taken"),
    "a folder outside": (lambda run: run.load("x", str(DEMO)), grpc.StatusCode.INVALID_ARGUMENT, "path"),
    "a way out": (lambda run: run.load("x", "../" * 20 + "etc"), grpc.StatusCode.INVALID_ARGUMENT, "path"),
    "no adapter": (lambda run: run.load("x", "."), grpc.StatusCode.INVALID_ARGUMENT, "adapter_config.json"),
    "an adapter of another": (lambda run: run.load("x", "wrong"), grpc.StatusCode.INVALID_ARGUMENT, "has no such"),
    "an unknown adapter": (lambda run: run.unload("x"), grpc.StatusCode.NOT_FOUND, "no adapter named 'x'"),
}


@pytest.mark.parametrize("error", ERRORS)
def test_invalid_changes_are_rejected_with_their_reason(run: Run, error: str) -> None:
    call, code, text = ERRORS[error]
    with pytest.raises(grpc.RpcError) as caught:
        call(run)
    assert caught.value.code() is code
    assert text in str(caught.value.details())
    assert run.text("french") == run.expected["french"]


def test_number_of_adapters_is_limited_by_the_settings(run: Run) -> None:
    names = [f"copy-{index}" for index in range(4)]
    for name in names:
        run.load(name, "terse")
    try:
        with pytest.raises(grpc.RpcError) as caught:
            run.load("one-more", "terse")
        assert caught.value.code() is grpc.StatusCode.FAILED_PRECONDITION
        assert "engine.max_adapters is 5" in str(caught.value.details())
    finally:
        for name in names:
            run.unload(name)


def test_adapters_sleep_and_wake_with_their_model(run: Run) -> None:
    models: Any = model_pb2_grpc.ModelServiceStub(run.channel)
    with run.loaded("terse"):
        models.SleepModel(model_pb2.SleepModelRequest(model="demo"))
        asleep = httpx.post(f"{run.stack.url}/v1/completions", json={"model": "french", "prompt": "a"}, timeout=GUARD_S)
        assert asleep.status_code == 503
        models.WakeModel(model_pb2.WakeModelRequest(model="demo"))
        assert run.text("terse") == run.expected["terse"]
        assert run.text("french") == run.expected["french"]


def test_an_adapter_may_be_unloaded_while_its_model_sleeps(run: Run) -> None:
    """The adapter is absent when the model wakes, and the wake does not wait for it."""
    models: Any = model_pb2_grpc.ModelServiceStub(run.channel)
    run.load("dreaming", "terse")
    models.SleepModel(model_pb2.SleepModelRequest(model="demo"))
    try:
        run.unload("dreaming")
    finally:
        models.WakeModel(model_pb2.WakeModelRequest(model="demo"), timeout=GUARD_S)
    gone = httpx.post(f"{run.stack.url}/v1/completions", json={"model": "dreaming", "prompt": "a"}, timeout=GUARD_S)
    assert gone.status_code == 404
    assert run.text("french") == run.expected["french"]


CHAT = {"messages": [{"role": "user", "content": "?"}], "max_tokens": 4, "stream": False}
DIALECTS = {
    "OpenAI": "/v1/chat/completions",
    "Anthropic": "/v1/messages",
    "Azure": "/models/chat/completions?api-version=2024-05-01-preview",
    "Databricks": "/serving-endpoints/{model}/invocations",
}


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("model", ["demo", "demo:french", "french"])
def test_every_dialect_serves_adapters(run: Run, dialect: str, model: str) -> None:
    path = DIALECTS[dialect].format(model=model)
    answer = httpx.post(f"{run.stack.url}{path}", json={"model": model, **CHAT}, timeout=GUARD_S)
    assert answer.status_code == 200, answer.text
    assert answer.json()["model"] == ("demo" if model == "demo" else "demo:french")


def test_request_without_a_name_uses_the_model_and_not_its_adapter(run: Run) -> None:
    answer = httpx.post(f"{run.stack.url}{DIALECTS['Azure']}", json=CHAT, timeout=GUARD_S)
    assert answer.status_code == 200, answer.text
    assert answer.json()["model"] == "demo"


def test_endpoint_can_route_to_adapters(run: Run) -> None:
    body = {
        "name": "writers",
        "config": {
            "served_entities": [{"name": "only", "entity_name": "demo:french"}],
            "traffic_config": {"routes": [{"served_model_name": "only", "traffic_percentage": 100}]},
        },
    }
    made = httpx.post(f"{run.stack.url}/api/2.0/serving-endpoints", json=body, timeout=GUARD_S)
    assert made.status_code == 200, made.text
    assert run.text("writers", answering="demo:french") == run.expected["french"]
