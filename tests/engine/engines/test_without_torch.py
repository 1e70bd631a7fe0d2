"""The bundled models need neither torch nor transformers, whose imports take seconds and hundreds of megabytes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import asyncio, sys
import numpy as np
from service.settings.bundled_models import DEMO_FOLDER, embedding_folder
from service.engine.interface.config import EngineConfig
from service.engine.building.engines import build_encoder, build_engine
from service.generation.formats.constraint import Constraint, Grammar
from service.generation.requests.embedding import EmbeddingRequest
from service.generation.requests.parameters import LogprobsOptions, SamplingParams, StopParams
from service.generation.requests.request import GenerationRequest

IN_PROCESS = EngineConfig(worker="thread")

async def main():
    params = SamplingParams(
        temperature=0.7, top_k=9, top_p=0.9, min_p=0.01, typical_p=0.9, repetition_penalty=1.1, frequency_penalty=0.1,
        presence_penalty=0.1, logit_bias={7: 1.0}, watermark=True,
    )
    request = GenerationRequest(
        "r", [5, 6, 7], sampling=params, stopping=StopParams(max_tokens=4, min_tokens=2),
        logprobs=LogprobsOptions(2), prompt_logprobs=LogprobsOptions(2),
        constraint=Constraint(Grammar("start: /[a-z]+/", "schema")),
    )
    built = build_engine(str(DEMO_FOLDER), IN_PROCESS)
    async with built.engine as engine, engine.generate(request) as stream:
        async for output in stream:
            pass
    encoder = build_encoder(embedding_folder(), IN_PROCESS)
    async with encoder.engine as engine:
        await engine.embed(EmbeddingRequest("e", [np.array([101, 7592, 102])]))
    print(sorted({"torch", "transformers"} & set(sys.modules)))

asyncio.run(main())
"""


@pytest.mark.slow
def test_bundled_models_answer_without_torch() -> None:
    """A chat with every parameter and an embedding import neither package."""
    pytest.importorskip("sluice_native")
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], cwd=Path(__file__).parents[3], capture_output=True, text=True, check=False
    )
    assert (done.stdout, done.returncode) == ("[]\n", 0), done.stderr
