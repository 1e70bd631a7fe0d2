"""Constraints of prepared requests, enforced as the engine does, hold for any model."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from typing import Any

import jsonschema
import pytest
from sluice.v1 import completion_pb2, sampling_pb2

from service.answering.kind import COMPLETION
from service.engine.constraints.compiler import ConstraintCompiler
from service.engine.core.sequences.constraint_state import ConstraintState
from service.engine.tokens.tokenizer import FastTokenizer
from service.generation.errors import UnsupportedConstraint
from service.generation.formats.constraint import Constraint
from service.generation.formats.output_format import JsonSchema
from service.generation.outputs.output import FinishReason, GenerationOutput
from service.generation.prompts.conversation import ReasoningEffort
from service.generation.requests.request import GenerationRequest
from service.prompting.chat_model import ChatModel
from service.prompting.preparation import Preparation, PreparedAnswer
from service.prompts.preparing.workers import WorkerLimits, Workers
from service.prompts.templates.template import ChatTemplate
from tests.engine.constraints.fakes import END, allowed_ids, babble, control_ids_of, token_id
from tests.service.contract.fakes import completion_request
from tests.service.output.fakes import ChoiceResult, outputs_of, results_by_choice
from tests.service.preparation.fakes import (
    END_ID,
    TOKENIZER,
    chat,
    exchange,
    preparation_of,
    reader_of,
    request_of,
)
from tests.service.preparation.tools import NAMED, PING, REQUIRED, SCHEMA, WEATHER
from tests.service.prompts.fakes import CHATML, DEMO, user

COMPILE = ConstraintCompiler(TOKENIZER, control_ids_of(TOKENIZER), [END_ID])


@pytest.fixture(scope="module")
def untemplated() -> Iterator[Preparation]:
    """Yield the preparation of a model without a chat template."""
    preparation = preparation_of(None)
    yield preparation
    preparation.close()


def constraint_of(request: GenerationRequest) -> Constraint:
    assert request.constraint is not None
    return request.constraint


def state_of(prepared: PreparedAnswer) -> ConstraintState:
    return COMPILE(constraint_of(request_of(prepared)))


def answer_of(
    prepared: PreparedAnswer, tokens: list[int], tokenizer: FastTokenizer = TOKENIZER, **how: Any
) -> ChoiceResult:
    reader = reader_of(prepared, tokenizer)
    return results_by_choice(event for output in outputs_of(tokenizer, tokens, **how) for event in reader.read(output))[
        0
    ]


@pytest.mark.parametrize("seed", range(40))
async def test_constraints_hold_for_random_logits(preparation: Preparation, seed: int) -> None:
    """Required, named and single calls, and schemas, with and without reasoning, all give the requested answer."""
    rng = random.Random(seed)
    kind = rng.choice(["required", "named", "single", "schema", "schema with tools"])
    given: dict[str, Any] = {"tools": [WEATHER, PING]}
    if kind == "named":
        given["tool_choice"] = NAMED
    elif kind in ("required", "single"):
        given |= {"tool_choice": REQUIRED, "parallel_tool_calls": kind == "required"}
    else:
        given["output_format"] = JsonSchema(json.dumps(SCHEMA), strict=False, field="f")
        if kind == "schema":
            del given["tools"]
    effort = rng.choice([ReasoningEffort.LOW, ReasoningEffort.NONE, ReasoningEffort.MEDIUM])
    prepared = await preparation.prepare(chat(reasoning_effort=effort, **given), "r")
    tokens = babble(state_of(prepared), TOKENIZER, END_ID, rng, max_tokens=12_000)
    cuts = sorted(rng.sample(range(1, len(tokens)), min(20, len(tokens) - 1)))
    reader = reader_of(prepared)
    events = [event for output in outputs_of(TOKENIZER, tokens, cuts=cuts) for event in reader.read(output)]
    answer = results_by_choice(events)[0]
    assert (reader.usage().reasoning_tokens > 0) is (effort is not ReasoningEffort.NONE)
    if answer.calls:
        assert (answer.text, answer.reason) == ("", FinishReason.TOOL_CALLS)
    else:
        assert kind.startswith("schema")
        jsonschema.validate(json.loads(answer.text), SCHEMA)
    if kind == "named":
        assert [name for name, _ in answer.calls] == ["weather"]
    if kind == "single":
        assert len(answer.calls) == 1
    for name, written in answer.calls:
        arguments = json.loads(written)
        if kind in ("required", "named", "single") and name == "weather":
            jsonschema.validate(arguments, SCHEMA)


@pytest.mark.parametrize(
    ("effort", "num_reasoned"),
    [(ReasoningEffort.LOW, 4), (ReasoningEffort.MEDIUM, 40), (ReasoningEffort.HIGH, 300)],
)
async def test_effort_opens_and_limits_the_reasoning(
    preparation: Preparation, effort: ReasoningEffort, num_reasoned: int
) -> None:
    """If a model never closes its reasoning, the budget, if there is one, closes it."""
    prepared = await preparation.prepare(chat(reasoning_effort=effort), "r")
    state = state_of(prepared)
    (letter,) = TOKENIZER.encode("x")
    tokens: list[int] = []
    while len(tokens) < 400:
        allowed = allowed_ids(state, TOKENIZER)
        tokens.append(allowed[0] if len(allowed) == 1 else letter)
        state.accept(tokens[-1])
    reasoned = answer_of(prepared, [*tokens, END_ID]).reasoning
    assert len(reasoned) == num_reasoned if num_reasoned < 300 else len(reasoned) > 300


async def test_reasoning_that_the_template_opens_is_closed_at_once() -> None:
    """Without effort only the closing marker is allowed."""
    preparation = preparation_of(CHATML.split("{%- if enable_thinking")[0] + "{{ '<think>\n' }}")
    prepared = await preparation.prepare(chat(reasoning_effort=ReasoningEffort.NONE), "r")
    assert allowed_ids(state_of(prepared), TOKENIZER) == [token_id(TOKENIZER, "</think>")]
    preparation.close()


async def test_reasoning_is_not_forced_on_a_model_without_a_switch() -> None:
    """The model may reason, but doesn't have to."""
    preparation = preparation_of(CHATML.split("{%- if enable_thinking")[0])
    prepared = await preparation.prepare(chat(reasoning_effort=ReasoningEffort.LOW), "r")
    assert len(allowed_ids(state_of(prepared), TOKENIZER)) > 100
    preparation.close()


@pytest.mark.parametrize("is_raw", [True, False])
@pytest.mark.parametrize("seed", range(8))
async def test_constraint_holds_for_each_prompt(preparation: Preparation, seed: int, *, is_raw: bool) -> None:
    """A schema is enforced for every prompt, raw or in the template, with and without reasoning."""
    rng = random.Random(seed)
    expected = sampling_pb2.OutputConstraint(json_schema={"name": "x", "schema": json.dumps(SCHEMA)})
    request = completion_request("hello", "other", output_constraint=expected, use_raw_prompt=is_raw)
    completion = await exchange(preparation, COMPLETION, request)
    outputs: list[GenerationOutput] = []
    for index, generation in enumerate(completion.prepared.requests):
        tokens = babble(COMPILE(constraint_of(generation)), TOKENIZER, END_ID, rng, max_tokens=12_000)
        outputs += outputs_of(TOKENIZER, tokens, request_index=index)
    choices = completion.answer(outputs).choices
    assert len(choices) == 2
    for choice in choices:
        jsonschema.validate(json.loads(choice.text), SCHEMA)


async def test_constraint_applies_without_a_chat_template(untemplated: Preparation) -> None:
    """A model without a chat template has grammars too, and unsupported ones are rejected."""

    def request(regex: str) -> completion_pb2.CompleteRequest:
        return completion_request(output_constraint=sampling_pb2.OutputConstraint(regex=regex))

    completion = await exchange(untemplated, COMPLETION, request("[0-9]{3}"))
    tokens = babble(state_of(completion.prepared), TOKENIZER, END_ID, random.Random(0))
    assert TOKENIZER.decode(tokens).isdigit()
    broken = await exchange(untemplated, COMPLETION, request("("))
    with pytest.raises(UnsupportedConstraint) as caught:
        state_of(broken.prepared)
    assert caught.value.field == "output_constraint.regex"


async def test_bundled_model_is_prepared_for_tools_and_reasoning() -> None:
    """The demo model's folder has its own syntax and switch, and its prompt is its template's."""
    tokenizer = FastTokenizer.from_folder(DEMO)
    template = ChatTemplate.from_folder(DEMO)
    model = ChatModel(template, tokenizer)
    preparation = Preparation("sluice-demo", tokenizer, 2048, model, Workers(WorkerLimits()))
    assert model.supports_tools
    assert model.supports_reasoning
    prepared = await preparation.prepare(chat(user("Weather in Oslo?"), tools=[WEATHER], tool_choice=REQUIRED), "r")
    end_id = token_id(tokenizer, END)
    compile_constraint = ConstraintCompiler(tokenizer, model.control_token_ids, [end_id])
    state = compile_constraint(constraint_of(request_of(prepared)))
    tokens = babble(state, tokenizer, end_id, random.Random(0), max_tokens=12_000)
    answer = answer_of(prepared, tokens, tokenizer)
    assert answer.calls
    for _, arguments in answer.calls:
        jsonschema.validate(json.loads(arguments), SCHEMA)
    plain = await preparation.prepare(chat(user("hello there")), "r")
    rendered = template.render([{"role": "user", "content": "hello there"}], None, {})
    assert request_of(plain).prompt_token_ids == tokenizer.encode(rendered)
    preparation.close()
