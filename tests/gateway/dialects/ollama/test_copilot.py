"""What VS Code's Copilot reads of an Ollama server: the fields of its `ollamaProvider.ts`, for its list of models."""

from __future__ import annotations

import json
from typing import Any

import pytest
from sluice.v1 import model_pb2

from gateway.dialects.ollama.model import VERSION, parse_show, to_show, to_tags
from gateway.dialects.seam.http_request import HttpRequest

MINIMUM = (0, 6, 4)  # an older server is rejected


def as_copilot(model: model_pb2.Model) -> dict[str, Any]:
    """Return the entry that Copilot makes of a model that the server lists."""
    assert tuple(map(int, json.loads(VERSION)["version"].split("."))) >= MINIMUM
    (listed,) = json.loads(to_tags([model]))["models"]
    asked = parse_show(HttpRequest(json.dumps({"model": listed["model"]}).encode()))
    assert asked.request.model == model.name
    shown = json.loads(to_show(model_pb2.GetModelResponse(model=model)))
    info = shown["model_info"]
    context = info[f"{info['general.architecture']}.context_length"]
    num_output = context // 2 if context < 4096 else 4096
    return {
        "id": listed["model"],
        "name": info["general.basename"],
        "input": context - num_output,
        "tools": "tools" in shown["capabilities"],
        "vision": "vision" in shown["capabilities"],
    }


@pytest.mark.parametrize("sees", [False, True])
@pytest.mark.parametrize("calls", [False, True])
def test_copilot_lists_a_model_with_its_context_tools_and_vision(calls: bool, sees: bool) -> None:  # noqa: FBT001
    model = model_pb2.Model(
        name="org/qwen", architecture="Qwen3ForCausalLM", max_model_len=32_768, tasks=[model_pb2.TASK_CHAT],
        supports_tools=calls, input_modalities=[model_pb2.MODALITY_TEXT, *[model_pb2.MODALITY_IMAGE] * sees],
    )  # fmt: skip
    expected = {"id": "org/qwen:latest", "name": "org/qwen", "input": 28_672, "tools": calls, "vision": sees}
    assert as_copilot(model) == expected


def test_copilot_halves_a_short_context() -> None:
    model = model_pb2.Model(name="m", architecture="LlamaForCausalLM", max_model_len=2048)
    assert as_copilot(model)["input"] == 1024
