"""Measure the sampler's cost of a batch's rows: plain, with every parameter, watermarked, constrained.

Run as `python -m bench.engine.sampler_rows [--threads N] [--rounds N] [demo] [152k]`. Prints, for a batch of 16 rows,
the median milliseconds of one call of the native backend's sampler, its ratio to 16 plain rows, and the milliseconds of
the torch backend's sampler. The kinds of batches and the two samplers take turns, so that noise affects them equally.
The native module must be built. The logits are random. The vocabulary is the bundled model's, or the same extended to
151,936 tokens. A constrained row follows a JSON document through its schema, one token per round.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time

import torch

from bench import shapes
from service.constraints.grammar import format_grammar
from service.engine.constraints.grammar import GrammarCompiler, GrammarConstraint
from service.engine.core.sequences.sequence import Sequence, SequenceGroup
from service.engine.sampler.native_sampler import NativeSampler
from service.engine.sampler.torch_sampler import TorchSampler
from service.engine.tokens.tokenizer import FastTokenizer
from service.generation.formats.output_format import JsonSchema
from service.generation.requests.parameters import SamplingParams
from service.generation.requests.request import GenerationRequest
from service.prompts.tokens.control_tokens import ControlTokens

BATCH_SIZE = 16
VOCABULARIES = {"demo": None, "152k": shapes.QWEN2_5_0_5B.vocab_size}
FULL = SamplingParams(
    temperature=0.8,
    top_k=50,
    top_p=0.9,
    min_p=0.02,
    typical_p=0.95,
    repetition_penalty=1.1,
    frequency_penalty=0.5,
    presence_penalty=0.5,
    logit_bias={5: 1.0, 6: -100.0},
)
BIASED = SamplingParams(logit_bias=dict.fromkeys(range(1024), 1.0))  # the most entries that the contract accepts
SCHEMA = {
    "type": "object",
    "properties": {
        "name": {"type": "string"},
        "age": {"type": "integer", "minimum": 0, "maximum": 150},
        "tags": {"type": "array", "items": {"type": "string", "maxLength": 20}, "maxItems": 4},
    },
    "required": ["name", "age", "tags"],
}
DOCUMENT = '{"name": "Some Body of this World", "age": 42, "tags": ["one", "two words"]}'


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("vocabularies", nargs="*", choices=[*VOCABULARIES, []], help="default: all")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=60)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    torch.set_flush_denormal(True)  # as the engine's thread does
    for name in options.vocabularies or VOCABULARIES:
        tokenizer = tokenizer_of(VOCABULARIES[name])
        print(f"{name}: {tokenizer.vocab_size} tokens, batch {BATCH_SIZE}, {options.threads} threads")
        measure(tokenizer, options.rounds)


def measure(tokenizer: FastTokenizer, rounds: int) -> None:
    """Print one line per kind of batch."""
    states = constraint_states(tokenizer)
    kinds = {
        "biased": (BIASED, None),
        "fully parametrised": (FULL, None),
        "watermarked": (SamplingParams(watermark=True), None),
        "constrained": (SamplingParams(), states[0]),
    }
    batches = {
        "16 plain": rows(tokenizer, BATCH_SIZE),
        "1 plain": rows(tokenizer, 1),
        "16 greedy": rows(tokenizer, BATCH_SIZE, SamplingParams(temperature=0)),
        "16 with temperature and top-p": rows(tokenizer, BATCH_SIZE, SamplingParams(temperature=0.7, top_p=0.9)),
    }
    for name, (sampling, constraint) in kinds.items():
        one = rows(tokenizer, 1, sampling, constraint)
        batches[f"15 plain, 1 {name}"] = rows(tokenizer, BATCH_SIZE - 1) + one
        batches[f"16 {name}"] = rows(tokenizer, BATCH_SIZE, sampling, constraint)
    logits = torch.randn(BATCH_SIZE, tokenizer.vocab_size, generator=torch.Generator().manual_seed(0)) * 3
    native, plain_torch = NativeSampler(), TorchSampler()
    seconds: dict[str, list[tuple[float, float]]] = {name: [] for name in batches}
    for turn in range(rounds):
        for name, batch in batches.items():
            for row in batch:
                if row.constraint is not None:
                    row.constraint = states[turn % len(states)].fork()
            own = logits[: len(batch)].clone()
            began = time.perf_counter()
            native.sample(own.numpy(), batch)
            between, own = time.perf_counter(), logits[: len(batch)].clone()
            began_again = time.perf_counter()
            plain_torch.sample(own, batch)
            seconds[name].append((between - began, time.perf_counter() - began_again))
    base = statistics.median(native_s for native_s, _ in seconds["16 plain"])
    for name, values in seconds.items():
        native_s, torch_s = map(statistics.median, zip(*values, strict=True))
        print(f"  {name:32} {1e3 * native_s:8.3f} ms   {native_s / base:6.2f} x   torch {1e3 * torch_s:8.3f} ms")


def tokenizer_of(vocab_size: int | None) -> FastTokenizer:
    path = shapes.DEMO / "tokenizer.json"
    return FastTokenizer(path.read_text() if vocab_size is None else shapes.filled_up(path, vocab_size))


def constraint_states(tokenizer: FastTokenizer) -> list[GrammarConstraint]:
    """Return the states of the schema's constraint before each token of the document."""
    control_tokens = ControlTokens(tokenizer, (shapes.DEMO / "chat_template.jinja").read_text())
    compiler = GrammarCompiler(tokenizer, control_tokens.ids, [min(tokenizer.special_token_ids)])
    states = [compiler.compile(format_grammar(JsonSchema(json.dumps(SCHEMA), strict=False, field="schema")))]
    for token_id in tokenizer.encode(DOCUMENT)[:-1]:
        states.append(states[-1].fork())
        states[-1].accept(token_id)
    return states


def rows(
    tokenizer: FastTokenizer,
    num_rows: int,
    sampling: SamplingParams = SamplingParams(),  # noqa: B008  immutable
    constraint: GrammarConstraint | None = None,
) -> list[Sequence]:
    """Return sequences in the middle of their answers, with 200 prompt tokens and 100 generated tokens."""
    group = SequenceGroup(
        GenerationRequest("r", [(7 * i) % 1000 for i in range(200)], sampling, n=num_rows),
        tokenizer,
        serial=0,
        seed=0,
        arrived=0.0,
        eos_token_ids=(),
        max_model_len=4096,
        cache_salt="",
    )
    for each in group.sequences:
        each.token_ids += [(11 * i) % 500 for i in range(100)]
        each.constraint = constraint
    return group.sequences


if __name__ == "__main__":
    main()
