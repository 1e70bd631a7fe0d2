"""Measure the loss of quality by quantized weights, keys and values: the bundled model in each type versus float32.

Run as `python -m bench.engine.quantization [--cases N] [--threads N]`, with native/ installed. The cases are held-out
cases of every skill of the model card. The model is fed each case's right answer token by token, and its most likely
next tokens are compared. Prints the share of tokens that equal float32's, the share of answers in which all tokens do,
the share of right answers, the perplexity of the right answers, the divergence from float32's probabilities (nats per
token), and the root mean square of the logits' error relative to their standard deviation.
"""

from __future__ import annotations

import argparse
import math
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bench.shapes import DEMO
from demo.corpus.conversation import segments
from demo.evaluate import SKILLS, cases
from demo.metrics import prompt_of
from service.engine.core.batch import Batch
from service.engine.models.checkpoint.checkpoint import Checkpoint
from service.engine.models.checkpoint.model_config import read_model_config
from service.engine.models.interface.backend import Backend
from service.engine.models.interface.model_spec import ModelSpec
from service.engine.models.selection.backends import choose_backend
from service.engine.tokens.tokenizer import FastTokenizer

BLOCK_SIZE = 16
MAX_POSITIONS = 2_048
# The types of arithmetic, of quantized weights, and of keys and values.
TYPES = {
    "float32": ("float32", None, "auto"),
    "float32, cache in float16": ("float32", None, "float16"),
    "float32, cache in bfloat16": ("float32", None, "bfloat16"),
    "float32, cache in int8": ("float32", None, "int8"),
    "bfloat16": ("bfloat16", None, "auto"),
    "int8": ("bfloat16", "int8", "auto"),
    "int4": ("bfloat16", "int4", "auto"),
}


@dataclass(frozen=True, slots=True)
class Case:
    """A prompt and its right answer."""

    prompt: list[int]
    answer: list[int]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cases", type=int, default=50, help="cases per skill")
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    chosen = held_out(options.cases)
    print(f"{len(chosen)} answers, {sum(len(case.answer) for case in chosen)} tokens")
    print("| weights | same token | same answer | right answer | perplexity | divergence | error of logits |")
    print("|---|--:|--:|--:|--:|--:|--:|")
    exact: list[Tensor] = []
    for name, (dtype, quantization, kv_cache_dtype) in TYPES.items():
        backend = loaded(dtype, quantization, kv_cache_dtype, options.threads)
        found = [logits_of(backend, case) for case in chosen]
        exact = exact or found
        print(row(name, chosen, exact, found), flush=True)


def held_out(count: int) -> list[Case]:
    """Return held-out cases of all skills, at most `count` of each."""
    tokenizer = FastTokenizer.from_folder(DEMO)
    found = []
    for case in (case for skill in SKILLS for case in cases(skill, count, seed=2026)):
        prompt = prompt_of(case)
        pieces = segments(case)
        last = max(index for index, (_, is_taught) in enumerate(pieces) if is_taught)
        whole = "".join(text for text, _ in pieces[: last + 1])
        found.append(Case(tokenizer.encode(prompt), tokenizer.encode(whole[len(prompt) :])))
    return [case for case in found if len(case.prompt) + len(case.answer) <= MAX_POSITIONS]


def loaded(dtype: str, quantization: str | None, kv_cache_dtype: str, num_threads: int) -> Backend[NDArray[np.float32]]:
    """Load the bundled model on the native backend, with a cache for one sequence."""
    spec = ModelSpec(
        config=read_model_config(DEMO),
        checkpoint=Checkpoint(DEMO),
        dtype=dtype,
        device="cpu",
        max_positions=MAX_POSITIONS,
        block_size=BLOCK_SIZE,
        quantization=quantization,
        kv_cache_dtype=kv_cache_dtype,
    )
    backend = choose_backend(spec, "native").load(spec)
    backend.allocate(MAX_POSITIONS // BLOCK_SIZE, BLOCK_SIZE)
    backend.prepare_thread(num_threads)
    return backend


def logits_of(backend: Backend[NDArray[np.float32]], case: Case) -> Tensor:
    """Return the logits [tokens of the answer, vocabulary] from which each token of the answer would be chosen."""
    ids = [*case.prompt, *case.answer[:-1]]
    batch = Batch(
        token_ids=np.array(ids, np.int32),
        positions=np.arange(len(ids), dtype=np.int32),
        row_offsets=np.array([0, len(ids)], np.int32),
        context_lengths=np.array([len(ids)], np.int32),
        block_tables=np.arange(-(-len(ids) // BLOCK_SIZE), dtype=np.int32)[None],
        output_rows=np.arange(len(case.prompt) - 1, len(ids), dtype=np.int32),
    )
    return torch.from_numpy(backend.forward(batch))


def row(name: str, chosen: list[Case], exact: list[Tensor], found: list[Tensor]) -> str:
    """Return a row of the Markdown table."""
    agreements = [ours.argmax(-1) == theirs.argmax(-1) for ours, theirs in zip(found, exact, strict=True)]
    answers = [torch.tensor(case.answer) for case in chosen]
    rights = [bool((ours.argmax(-1) == answer).all()) for ours, answer in zip(found, answers, strict=True)]
    ours, theirs = torch.cat(found).double(), torch.cat(exact).double()
    logprobs, expected = ours.log_softmax(-1), theirs.log_softmax(-1)
    nll = -logprobs.gather(-1, torch.cat(answers)[:, None]).mean()
    divergence = (expected.exp() * (expected - logprobs)).sum(-1).mean()
    error = (ours - theirs).square().mean().sqrt() / theirs.std(-1).mean()
    return (
        f"| {name} | {100 * torch.cat(agreements).double().mean():.2f} % "
        f"| {100 * sum(bool(each.all()) for each in agreements) / len(chosen):.1f} % "
        f"| {100 * sum(rights) / len(chosen):.1f} % | {math.exp(nll):.4f} | {divergence:.5f} | {100 * error:.2f} % |"
    )


if __name__ == "__main__":
    main()
