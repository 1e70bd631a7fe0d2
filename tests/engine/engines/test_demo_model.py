"""The bundled model: its greedy tokens are those of transformers' own generate."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM

from service.engine.building.engines import BuiltEngine, build_engine
from service.engine.interface.config import EngineConfig
from service.generation.requests.parameters import SamplingParams, StopParams
from service.generation.requests.request import GenerationRequest
from tests.engine.fakes import read

FOLDER = Path(__file__).parents[3] / "demo" / "model"
PROMPTS = [
    "<|im_start|>user\nHello, who are you?<|im_end|>\n<|im_start|>assistant\n",
    "<|im_start|>user\nWhat is the capital of France?<|im_end|>\n<|im_start|>assistant\n",
    "<|im_start|>system\nAnswer in upper case.<|im_end|>\n<|im_start|>user\nHello<|im_end|>\n<|im_start|>assistant\n",
    "The gateway",
]


@pytest.fixture(params=["thread", "process"])
def built(request: pytest.FixtureRequest) -> BuiltEngine:
    torch.set_num_threads(1)
    return build_engine(str(FOLDER), EngineConfig(num_blocks=256, num_threads=1, worker=request.param))


@pytest.mark.slow
async def test_demo_model_generates_the_tokens_of_transformers(built: BuiltEngine) -> None:
    """The tokens are equal in float32, until each answer ends or has 48 tokens."""
    reference: Any = AutoModelForCausalLM.from_pretrained(FOLDER, dtype=torch.float32)
    async with built.engine as engine:
        for index, prompt in enumerate(PROMPTS):
            ids = built.tokenizer.encode(prompt)
            expected = reference.generate(
                torch.tensor([ids]),
                attention_mask=torch.ones(1, len(ids), dtype=torch.int64),
                max_new_tokens=48,
                do_sample=False,
                temperature=None,
                top_p=None,
            )[0, len(ids) :].tolist()
            wanted = GenerationRequest(f"{index}", ids, SamplingParams(temperature=0), StopParams(max_tokens=48))
            async with engine.generate(wanted) as outputs:
                generated = [token_id for output in await read(outputs) for token_id in output.token_ids]
            assert generated == expected, prompt
