"""Comparison of a folder's answers by this project's engine with those of transformers' `generate`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tokenizers
import torch
from torch import Tensor

from service.engine.building.engines import build_engine
from service.engine.interface.config import EngineConfig
from service.engine.loading.model_plan import plan_model
from service.generation.errors import ModelLoadError
from service.generation.requests.parameters import LogprobsOptions, SamplingParams, StopParams
from service.generation.requests.request import GenerationRequest
from tests.models.shapes import VOCAB_SIZE

# Chunks are shorter than the longest prompt, so that chunks and decodes are batched in a step.
CONFIG = EngineConfig(
    num_blocks=64,
    max_batch_sequences=8,
    max_batch_tokens=32,
    max_prefill_chunk=16,
    max_queue_wait_s=600,
    worker="thread",
    num_threads=1,
)
_PROMPT_LENGTHS = (5, 1, 40, 21, 64)
_NUM_TOKENS = 12
_TOLERANCE = 1e-3  # for logprobs
_MATRIX = 2  # minimum dimensions of a weight that is not a vector


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of a folder: the backend that served it, or None, and the error, or an empty text."""

    backend: str | None
    message: str = ""
    difference: float = 0.0  # the largest over all logprobs

    @property
    def is_equal(self) -> bool:
        return self.backend is not None and not self.message


def save(model: Any, folder: Path) -> None:
    """Write a random model and a tokenizer. The weights are large enough for logits that differ clearly."""
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() >= _MATRIX:
                parameter.normal_(std=0.15, generator=generator)
            else:
                parameter.add_(torch.empty_like(parameter).normal_(std=0.05, generator=generator))
    model.save_pretrained(folder)
    vocabulary = {f"w{index}": index for index in range(VOCAB_SIZE)}
    tokenizer = tokenizers.Tokenizer(tokenizers.models.WordLevel(vocabulary, unk_token="w0"))  # noqa: S106
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    tokenizer.save(str(folder / "tokenizer.json"))


def prompts() -> list[list[int]]:
    """Return prompts of several lengths, some longer than the window of models that have one."""
    generator = torch.Generator().manual_seed(1)
    return [torch.randint(2, VOCAB_SIZE, (length,), generator=generator).tolist() for length in _PROMPT_LENGTHS]


@torch.inference_mode()
def reference(model: Any, prompt: Sequence[int]) -> tuple[list[int], Tensor]:
    """Return transformers' continuation, and the logprobs [tokens, vocabulary] that its tokens were chosen from."""
    given = torch.tensor([list(prompt)])
    made = model.generate(
        given,
        attention_mask=torch.ones_like(given),
        do_sample=False,
        max_new_tokens=_NUM_TOKENS,
        eos_token_id=None,
        forced_eos_token_id=None,
        pad_token_id=0,
        output_logits=True,
        return_dict_in_generate=True,
    )
    logits = torch.stack([row[0].float() for row in made.logits])
    return made.sequences[0, len(prompt) :].tolist(), logits.log_softmax(-1)


async def compare(model: Any, folder: Path, config: EngineConfig = CONFIG) -> Outcome:
    """Generate from `folder` with all prompts together, twice; the second time with cached prefixes."""
    try:
        name = plan_model(str(folder), config, "float32", "cpu").backend.name
        built = build_engine(str(folder), config, compute_dtype="float32", device="cpu")
    except ModelLoadError as error:
        return Outcome(None, str(error).replace(str(folder), "FOLDER"))
    expected = [reference(model, prompt) for prompt in prompts()]
    difference = 0.0
    async with built.engine as engine:
        for turn in ("first", "cached"):
            async with engine.generate(*map(_request, prompts())) as outputs:
                made = [output async for output in outputs]
            for index, (tokens, logprobs) in enumerate(expected):
                mine = [output for output in made if output.request_index == index]
                got = [token_id for output in mine for token_id in output.token_ids]
                found = torch.tensor([each.logprob for output in mine for each in output.logprobs])
                if got != tokens:
                    num_equal = next(i for i, pair in enumerate(zip(got, tokens, strict=True)) if pair[0] != pair[1])
                    where = f"prompt of {_PROMPT_LENGTHS[index]} tokens, {turn}: token {num_equal + 1} differs"
                    return Outcome(name, where)
                apart = (found - logprobs[range(len(tokens)), tokens]).abs().max().item()
                difference = max(difference, apart)
    message = f"logprobs differ by {difference:.2g}" if difference > _TOLERANCE else ""
    return Outcome(name, message, difference)


def _request(prompt: Sequence[int]) -> GenerationRequest:
    return GenerationRequest(
        "r",
        prompt,
        SamplingParams(temperature=0),
        StopParams(max_tokens=_NUM_TOKENS, ignore_eos=True),
        logprobs=LogprobsOptions(),
    )
