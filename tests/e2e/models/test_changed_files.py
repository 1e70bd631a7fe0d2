"""Models and adapters whose files change on the disk while they are served."""

from __future__ import annotations

import json
import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import grpc
import httpx
import pytest
import yaml
from safetensors.torch import load_file, save_file
from sluice.v1 import adapter_pb2, adapter_pb2_grpc, model_pb2, model_pb2_grpc

from service.engine.models.checkpoint.adapter_files import TENSORS
from tests.e2e.stack import Stack
from tests.engine.folders import peft_adapters
from tests.waiting import GUARD_S, wait_until

DEMO = Path("demo/model").resolve()
WEIGHTS = "model/model.safetensors"
PROMPT = "<|im_start|>user\nTell me about rivers.<|im_end|>\n<|im_start|>assistant\n"


class Run(NamedTuple):
    """The product with one model and one adapter, whose folders belong to the test."""

    stack: Stack
    channel: grpc.Channel
    folder: Path

    @property
    def models(self) -> Any:
        return model_pb2_grpc.ModelServiceStub(self.channel)

    def ask(self, model: str = "demo") -> httpx.Response:
        body = {"model": model, "prompt": PROMPT, "max_tokens": 24, "temperature": 0}
        return httpx.post(f"{self.stack.url}/v1/completions", json=body, timeout=GUARD_S)

    def answer(self, model: str = "demo") -> tuple[str, str]:
        """Return the fingerprint and the greedy text, as soon as the model answers."""
        wait_until(lambda: self.ask(model).status_code == 200)
        answer = self.ask(model).json()
        return answer["system_fingerprint"], answer["choices"][0]["text"]

    def changed(self, file: str) -> Path:
        """Return the path of a copy of a file with other weights."""
        path = self.folder / file
        tensors = {name: each * 1.5 for name, each in load_file(path).items()}
        save_file(tensors, path.with_suffix(".new"), metadata={"format": "pt"})
        return path.with_suffix(".new")

    def change(self, file: str) -> None:
        """Write other weights to a file."""
        self.changed(file).replace(self.folder / file)


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Run]:
    shutil.copytree(DEMO, tmp_path / "model")
    peft_adapters.save_adapter(DEMO, tmp_path / "french", seed=1, std=0.13)
    model = {"name": "demo", "path": str(tmp_path / "model"), "adapters": {"french": str(tmp_path / "french")}}
    config = tmp_path / "sluice.yaml"
    config.write_text(yaml.safe_dump({"adapters_root": str(tmp_path), "models": [model]}))
    stack = Stack("--config", str(config))
    try:
        stack.wait_for("sluice is ready")
        with grpc.insecure_channel(stack.url.removeprefix("http://")) as channel:
            yield Run(stack, channel, tmp_path)
    finally:
        stack.stop()


def test_restarted_engine_with_changed_files_has_a_new_fingerprint(run: Run) -> None:
    """The answers' fingerprint changes with the weights, and a stream is not continued with other weights."""
    before = run.answer()
    changed = run.changed(WEIGHTS)
    (worker,) = run.stack.workers()
    body = {"model": "demo", "prompt": PROMPT, "max_tokens": 1900, "ignore_eos": True, "stream": True}
    with httpx.stream("POST", f"{run.stack.url}/v1/completions", json=body, timeout=GUARD_S) as answer:
        lines = (line for line in answer.iter_lines() if line.startswith("data: "))
        seen = [json.loads(next(lines).removeprefix("data: "))]
        changed.replace(run.folder / WEIGHTS)
        os.kill(worker, signal.SIGKILL)
        rest = [line.removeprefix("data: ") for line in lines]
    assert "error" in json.loads(next(line for line in reversed(rest) if line != "[DONE]"))
    seen += [json.loads(line) for line in rest if line != "[DONE]"]
    assert {each["system_fingerprint"] for each in seen if each.get("system_fingerprint")} <= {before[0]}
    after = run.answer()
    assert after[0] != before[0]
    assert after[1] != before[1]
    assert run.answer("demo:french")[0] != after[0]  # its adapter is loaded, too
    (other,) = run.stack.workers()
    os.kill(other, signal.SIGKILL)
    wait_until(lambda: run.stack.workers() not in ([], [other]))
    assert run.answer() == after


def test_woken_model_with_changed_files_has_a_new_fingerprint(run: Run) -> None:
    """What a woken model computes with is what its fingerprint identifies."""
    before, adapted = run.answer(), run.answer("demo:french")
    run.models.SleepModel(model_pb2.SleepModelRequest(model="demo"))
    run.models.WakeModel(model_pb2.WakeModelRequest(model="demo"))
    assert run.answer() == before
    assert run.answer("demo:french") == adapted
    run.models.SleepModel(model_pb2.SleepModelRequest(model="demo"))
    run.change(WEIGHTS)
    run.models.WakeModel(model_pb2.WakeModelRequest(model="demo"))
    after = run.answer()
    assert after[0] != before[0]
    assert after[1] != before[1]
    assert run.answer("demo:french")[0] not in {adapted[0], after[0]}


def test_a_changed_adapter_is_rejected_until_it_is_loaded_again(run: Run) -> None:
    """After a crash an adapter with other weights isn't served under the fingerprint of the old ones."""
    before = run.answer("demo:french")
    run.change(f"french/{TENSORS}")
    (worker,) = run.stack.workers()
    os.kill(worker, signal.SIGKILL)
    wait_until(lambda: run.stack.workers() not in ([], [worker]))
    run.answer()
    rejected = run.ask("demo:french")
    assert rejected.status_code == 503
    assert "its files have changed" in rejected.json()["error"]["message"]
    stub: Any = adapter_pb2_grpc.AdapterServiceStub(run.channel)
    stub.UnloadAdapter(adapter_pb2.UnloadAdapterRequest(model="demo", name="french"))
    stub.LoadAdapter(adapter_pb2.LoadAdapterRequest(model="demo", name="french", path="french"))
    assert run.answer("demo:french")[0] != before[0]
