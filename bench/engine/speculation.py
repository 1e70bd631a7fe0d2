"""Measure the gain of speculation: the same answers with drafts and without, in turns.

Run as `python -m bench.engine.speculation [--models demo 0.5b] [--rounds N]`. Prints, for several kinds of text and
numbers of streams, the median over the rounds of the ratio of tokens per second with drafts to that without, the tokens
per step of a stream, and the share of accepted draft tokens. Only the engine runs, in this process. The benchmark exits
with an error if drafts change an answer.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections import abc
from dataclasses import dataclass
from pathlib import Path

from bench import shapes
from service.constraints.grammar import format_grammar
from service.engine.constraints.compiler import ConstraintCompiler
from service.engine.core.drafts.prompt_drafter import PromptDrafter
from service.engine.core.drafts.speculation import Speculation
from service.engine.core.generator_core import GeneratorCore
from service.engine.interface.config import EngineConfig
from service.engine.interface.messages import Abort, Add, Compile, Compiled, Report
from service.engine.loading.generator import LoadedModel, load_model
from service.engine.tokens.tokenizer import FastTokenizer
from service.generation.formats.constraint import Constraint
from service.generation.formats.output_format import JsonSchema
from service.generation.outputs.output import GenerationOutput
from service.generation.requests.parameters import SamplingParams, StopParams
from service.generation.requests.request import GenerationRequest
from service.generation.stats import EngineStats

STREAMS = (1, 4, 16)
CONSTRAINT = 1_000_000  # the constraint's serial
SENTENCE = "The quick brown fox jumps over the lazy dog. "
PERSON = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 20},
        "occupation": {"type": "string", "enum": ["gardener", "astronomer", "carpenter"]},
        "address": {
            "type": "object",
            "properties": {"street": {"type": "string", "maxLength": 20}, "number": {"type": "integer"}},
            "required": ["street", "number"],
            "additionalProperties": False,
        },
    },
    "required": ["name", "occupation", "address"],
    "additionalProperties": False,
}
PEOPLE = {"type": "array", "items": PERSON, "minItems": 4, "maxItems": 4}


@dataclass(frozen=True)
class Scenario:
    """A kind of text; `prompt` is called with the stream's number."""

    prompt: abc.Callable[[int], str]
    temperature: float
    schema: object = None


REPEATING = Scenario(lambda i: f"{SENTENCE * 3} Item {i}. Please repeat: {SENTENCE * 3}", 0.0)
DRAWN = Scenario(lambda i: f"Tell me a story about number {i}.", 2.0)
JSON = Scenario(lambda i: f"People number {i}, as JSON:", 0.0, PEOPLE)
MODELS: dict[str, tuple[abc.Callable[[], Path], int, dict[str, Scenario]]] = {
    "demo": (lambda: shapes.DEMO, 200, {"repeating": REPEATING, "drawn": DRAWN, "JSON": JSON}),
    "0.5b": (shapes.qwen2_5_0_5b, 48, {"repeating": REPEATING, "drawn": DRAWN, "JSON": JSON}),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", nargs="+", choices=list(MODELS), default=list(MODELS))
    parser.add_argument("--streams", nargs="+", type=int, default=STREAMS)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    print("| model | text | streams | with drafts / without | tokens per step | accepted drafts |")
    print("|---|---|--:|--:|--:|--:|")
    for name in options.models:
        folder, max_tokens, scenarios = MODELS[name]
        loaded = load_model(str(folder()), EngineConfig(num_blocks=2048, num_threads=options.threads))
        for kind, scenario in scenarios.items():
            for streams in options.streams:
                measured = measure(loaded, scenario, streams, max_tokens, options.rounds)
                print(f"| {name} | {kind} | {streams} | {measured}", flush=True)


def measure(loaded: LoadedModel, scenario: Scenario, streams: int, max_tokens: int, num_rounds: int) -> str:
    """Return the row's last three columns."""
    plain, drafting = (Variant(loaded, drafts=drafts) for drafts in (False, True))
    ratios = []
    for number in range(num_rounds + 1):
        variants = (plain, drafting) if number % 2 else (drafting, plain)
        results = {variant: variant.answer(scenario, streams, max_tokens, number) for variant in variants}
        if results[plain][1] != results[drafting][1]:
            raise SystemExit("drafts have changed an answer")
        if number:  # the first round calibrates the engine's step times
            ratios.append(results[plain][0] / results[drafting][0])
    stats = drafting.stats
    num_tokens = stats.num_generated_tokens / streams
    return (
        f"{statistics.median(ratios):.2f} | {num_tokens / stats.num_steps:.2f} | "
        f"{stats.num_accepted_draft_tokens / max(stats.num_draft_tokens, 1):.2f} |"
    )


class Variant:
    """An engine with drafts or without; both share the model."""

    def __init__(self, loaded: LoadedModel, *, drafts: bool) -> None:
        self.stats = EngineStats()
        self._loaded = loaded
        self._core = GeneratorCore(
            loaded.runner,
            loaded.tokens,
            loaded.config,
            eos_token_ids=loaded.eos_token_ids,
            compile_constraint=ConstraintCompiler(loaded.tokens, {}, loaded.eos_token_ids),
            speculation=Speculation(PromptDrafter()) if drafts else None,
        )
        self._reports: list[Report] = []
        self._core.open(self._reports.append)

    def answer(
        self, scenario: Scenario, streams: int, max_tokens: int, number: int
    ) -> tuple[float, dict[int, list[int]]]:
        """Generate the answers; return the seconds from the first token to the last, and the tokens by stream."""
        constraint = None
        if scenario.schema is not None:
            constraint = Constraint(
                format_grammar(JsonSchema(json.dumps(scenario.schema), strict=True, field="schema"))
            )
            self._compile(constraint)
        for index in range(streams):
            wanted = GenerationRequest(
                request_id=str(index),
                prompt_token_ids=FastTokenizer.from_folder(self._loaded.folder).encode(scenario.prompt(index)),
                sampling=SamplingParams(seed=index, temperature=scenario.temperature),
                stopping=StopParams(max_tokens=max_tokens, ignore_eos=constraint is None),
                constraint=constraint,
                cache_salt=f"{number}",
            )
            self._core.receive(Add(index, wanted, time.monotonic(), 0, CONSTRAINT if constraint else None))
        tokens: dict[int, list[int]] = {}
        began = time.perf_counter()
        while self._core.has_work:
            self._core.step()
            report = self._core.report()
            if report.started:
                began = time.perf_counter()
            for serial, output in report.outputs:
                if isinstance(output, GenerationOutput):
                    tokens.setdefault(serial, []).extend(output.token_ids)
            self.stats = report.stats[-1] if report.stats else self.stats
        seconds = time.perf_counter() - began
        if constraint:
            self._core.receive(Abort(CONSTRAINT))
        return seconds, tokens

    def _compile(self, constraint: Constraint) -> None:
        self._reports.clear()
        self._core.receive(Compile(CONSTRAINT, constraint))
        while not any(isinstance(output, Compiled) for report in self._reports for _, output in report.outputs):
            for report in self._reports:
                for _, error in report.errors:
                    raise error
            time.sleep(0.01)


if __name__ == "__main__":
    main()
