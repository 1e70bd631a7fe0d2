"""Answers of a real model are the same with and without drafts, for all kinds of requests."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from service.constraints.grammar import format_grammar
from service.constraints.tool_grammar import opened_calls
from service.constraints.tool_rules import ToolRules
from service.engine.building.engines import build_engine
from service.engine.constraints.compiler import ConstraintCompiler
from service.engine.core.blocks.block_pool import BlockPool
from service.engine.core.drafts.speculation import Speculation
from service.engine.core.engine_core import EngineCore
from service.engine.core.scheduler import Scheduler
from service.engine.core.sequences.sequence import SequenceGroup
from service.engine.interface.config import EngineConfig
from service.engine.loading.generator import load_model
from service.engine.tokens.tokenizer import FastTokenizer
from service.generation.errors import ModelLoadError
from service.generation.formats.constraint import Constraint, ReasoningLimit, ReasoningMarkers, ReasoningStart
from service.generation.formats.output_format import JsonSchema
from service.generation.outputs.output import FinishReason, GenerationOutput, TokenLogprob
from service.generation.prompts.conversation import Function
from service.generation.requests.parameters import LogprobsOptions, SamplingParams, StopParams
from service.generation.requests.request import GenerationRequest
from service.generation.stats import EngineStats
from service.output.families.object_calls import HERMES
from tests.engine.driving import drive
from tests.engine.folders.tiny_models import save

pytest.importorskip("sluice_native")

FOLDER = Path(__file__).parents[3] / "demo" / "model"
REPEATING = "The quick brown fox jumps over the lazy dog. " * 6
RECORD = {
    "type": "object",
    "properties": {"identifier": {"type": "integer"}, "colour": {"enum": ["crimson", "emerald", "sapphire"]}},
    "required": ["identifier", "colour"],
    "additionalProperties": False,
}
SCHEMA = {"type": "array", "items": RECORD, "minItems": 4, "maxItems": 6}
RECORDS = Constraint(format_grammar(JsonSchema(json.dumps(SCHEMA), strict=True, field="f")))
NUM_SHORTEST = 82  # tokens of the shortest records
OPENS_CALL, CLOSES_CALL = 2042, 2043  # the model's tokens
TOOL = Function("record", parameters=json.dumps(RECORD), field="tools[0].function")
CALLS = Constraint(
    opened_calls(
        ToolRules([TOOL], HERMES, required=False, single=False, field="tools"),
        {HERMES.begin: OPENS_CALL, HERMES.end: CLOSES_CALL},
    )
)
REASONING = ReasoningLimit(ReasoningMarkers("<think>", "</think>"), ReasoningStart.OPEN, budget=12)

CASES: dict[str, dict[str, Any]] = {
    "greedy": {"sampling": SamplingParams(temperature=0.0)},
    "drawn": {"sampling": SamplingParams(temperature=0.7, seed=1)},
    "truncated": {"sampling": SamplingParams(seed=2, top_k=40, top_p=0.9, min_p=0.02, typical_p=0.95)},
    "penalised": {"sampling": SamplingParams(seed=3, temperature=0.5, presence_penalty=0.2, repetition_penalty=1.02)},
    "biased": {"sampling": SamplingParams(seed=4, temperature=0.5, logit_bias={100: 2.0})},
    "watermarked": {"sampling": SamplingParams(seed=5, temperature=0.3, watermark=True)},
    "choices": {"sampling": SamplingParams(seed=6, temperature=0.3), "n": 3},
    "logprobs": {
        "sampling": SamplingParams(seed=7, temperature=0.3),
        "logprobs": LogprobsOptions(3),
        "prompt_logprobs": LogprobsOptions(1),
    },
    "schema": {"sampling": SamplingParams(seed=8), "constraint": RECORDS, "logprobs": LogprobsOptions(2)},
    "reasoning": {"sampling": SamplingParams(seed=9), "constraint": Constraint(RECORDS.grammar, REASONING)},
    "calls": {
        "sampling": SamplingParams(seed=10, logit_bias={OPENS_CALL: 8.0}),
        "constraint": CALLS,
        "logprobs": LogprobsOptions(2),
        "n": 2,
    },
    "in time": {
        "sampling": SamplingParams(seed=11, temperature=1.5),
        "constraint": RECORDS,
        "stopping": StopParams(max_tokens=NUM_SHORTEST + 3),
        "logprobs": LogprobsOptions(2),
        "n": 3,
    },
    "stopped": {
        "sampling": SamplingParams(temperature=0.0),
        "stopping": StopParams(max_tokens=80, min_tokens=30, stop=["dog. quick brown fox"]),
    },
}

Answer = list[tuple[int, list[int], str, list[TokenLogprob], object, str | None]]


def answer_of(outputs: list[GenerationOutput]) -> Answer:
    """Return all that a client gets of each choice."""
    return [
        (
            index,
            [token_id for output in mine for token_id in output.token_ids],
            "".join(output.text for output in mine),
            [each for output in mine for each in (*output.prompt_logprobs, *output.logprobs)],
            mine[-1].finish_reason,
            mine[-1].stop_sequence,
        )
        for index in sorted({output.choice_index for output in outputs})
        for mine in [[output for output in outputs if output.choice_index == index]]
    ]


def answers(**settings: Any) -> tuple[dict[str, Answer], EngineStats]:
    """Return the answers of the native backend, which do not depend on the batch."""
    return answers_of(backend="native", cases=CASES, **settings)


def answers_of(
    *, backend: str, cases: dict[str, dict[str, Any]], together: bool, **settings: Any
) -> tuple[dict[str, Answer], EngineStats]:
    """Return the answers and the stats. The clock stands still, so that drafts always seem to pay off."""
    config = EngineConfig(num_blocks=512, num_threads=1, backend=backend, **settings)
    loaded = load_model(str(FOLDER), config, compute_dtype="float32")
    compile_constraint = ConstraintCompiler(loaded.tokens, {}, loaded.eos_token_ids)
    speculation = Speculation(loaded.drafter) if loaded.drafter else None
    scheduler = Scheduler(loaded.config, BlockPool(512, config.tokens_per_block), speculation)
    core = EngineCore(scheduler, loaded.runner, lambda: 0.0)
    groups: list[SequenceGroup] = []
    for name, fields in cases.items():
        text = f"Records as JSON: {json.dumps([{'identifier': 7, 'colour': 'emerald'}] * 3)}"
        prompt = FastTokenizer.from_folder(FOLDER).encode(text if "constraint" in fields else REPEATING)
        wanted = GenerationRequest(name, prompt, **{"stopping": StopParams(max_tokens=60, ignore_eos=True), **fields})
        state = compile_constraint(wanted.constraint) if wanted.constraint else None
        groups.append(
            SequenceGroup(
                wanted,
                loaded.tokens,
                serial=len(groups),
                seed=wanted.sampling.seed or 0,
                arrived=0.0,
                eos_token_ids=loaded.eos_token_ids,
                max_model_len=256,
                cache_salt="",
                constraint=state,
            )
        )
    outputs: list[list[GenerationOutput]] = []
    for batch in [groups] if together else [[group] for group in groups]:
        found, errors = drive(core, batch)
        assert not errors
        outputs += found
    return dict(zip(cases, map(answer_of, outputs), strict=True)), core.stats()


@pytest.mark.slow
@pytest.mark.parametrize(
    "settings",
    [{}, {"draft_model": str(FOLDER), "draft_quantization": "int4"}],
    ids=["from the text", "by the same model in four bits"],
)
def test_drafts_change_no_answer_of_a_real_model(settings: dict[str, Any]) -> None:
    """Tokens, text, logprobs and finish reasons are bitwise equal for each kind of request, alone and together."""
    plain, stats = answers(speculation=False, together=False)
    assert stats.num_draft_tokens == 0
    for together in (False, True):
        drafted, stats = answers(**settings, together=together)
        assert stats.num_accepted_draft_tokens > 200
        for name, answer in plain.items():
            assert drafted[name] == answer, name


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["native", "torch"])
def test_answer_is_unconstrained_up_to_its_first_call(backend: str) -> None:
    """Its tokens and logprobs are those of a request without tools, followed by calls that match the schema."""
    free, called = (
        answers_of(
            backend=backend,
            cases={"calls": {**CASES["calls"], "constraint": constraint}},
            together=True,
            speculation=False,
        )[0]["calls"]
        for constraint in (None, CALLS)
    )
    texts = []
    for without, within in zip(free, called, strict=True):
        length = 1 + within[1].index(OPENS_CALL)
        assert within[1][:length] == without[1][:length]
        assert within[3][:length] == without[3][:length]
        assert within[1] != without[1]
        assert length > 1
        texts.append(within[2])
    for text in texts:
        for call in text.split(HERMES.begin)[1:]:
            if HERMES.end in call:
                arguments = json.loads(call.split(HERMES.end)[0])["arguments"]
                assert arguments["colour"] in ("crimson", "emerald", "sapphire")
    assert any(HERMES.end in text for text in texts)


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["native", "torch"])
def test_answer_ends_in_time(backend: str) -> None:
    """Constrained choices are valid within their token limit, and report that it was reached."""
    cases = {"in time": CASES["in time"]}
    choices = answers_of(backend=backend, cases=cases, together=True, speculation=False)[0]["in time"]
    assert len(choices) == 3
    for _, token_ids, text, logprobs, reason, _ in choices:
        assert len(logprobs) == len(token_ids) <= NUM_SHORTEST + 3
        assert 4 <= len(json.loads(text)) <= 6
        assert reason is FinishReason.LENGTH


def test_draft_model_needs_the_same_vocabulary(tmp_path: Path) -> None:
    """A draft model with another vocabulary is rejected."""
    save("llama", tmp_path)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(FOLDER / name, tmp_path)
    with pytest.raises(ModelLoadError, match=r"engine\.draft_model .*its vocabulary is not that of"):
        build_engine(str(FOLDER), EngineConfig(num_blocks=64, worker="thread", draft_model=str(tmp_path)))


def test_draft_model_needs_a_batch_invariant_backend() -> None:
    """If a row's bits depend on the rest of the batch, a draft could change an answer."""
    config = EngineConfig(num_blocks=64, worker="thread", backend="torch", draft_model=str(FOLDER))
    with pytest.raises(ModelLoadError, match=r"engine\.draft_model is not supported by the backend torch"):
        build_engine(str(FOLDER), config)


def test_torch_disables_speculation() -> None:
    """The torch backend does not speculate, so drafts cannot change its answers."""
    config = EngineConfig(num_blocks=64, worker="thread", backend="torch")
    assert not build_engine(str(FOLDER), config).config.speculation
