"""Values that cross between the event loop and an engine can be pickled, and are equal afterwards."""

from __future__ import annotations

import dataclasses
import enum
import importlib
import inspect
import pickle
import pkgutil
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import service.generation
from service.generation import errors
from service.generation.adapter import AdapterLoaded
from service.generation.caller import Caller, Limits, Scope
from service.generation.formats.constraint import (
    Constraint,
    Grammar,
    Opening,
    ReasoningLimit,
    ReasoningMarkers,
    ReasoningStart,
)
from service.generation.formats.output_format import JsonObject, JsonSchema, Regex, TextChoice, TextGrammar
from service.generation.outputs.events import (
    ChoiceFinished,
    Completed,
    DecodedLogprob,
    PromptLogprobs,
    PromptProgress,
    Reasoning,
    Started,
    Text,
    Tokens,
    ToolArguments,
    ToolCall,
    Usage,
)
from service.generation.outputs.output import FinishReason, GenerationOutput, PrefillProgress, Timings, TokenLogprob
from service.generation.prompts.conversation import (
    Conversation,
    FilePart,
    Function,
    FunctionCall,
    ImagePart,
    Message,
    RawText,
    RawTokens,
    ReasoningEffort,
    Role,
    TextPart,
    ToolChoice,
    ToolMode,
)
from service.generation.prompts.image import ImageForm, PreprocessedImage, PromptImage
from service.generation.requests.answer_request import AnswerRequest
from service.generation.requests.embedding import EmbeddingOutput, EmbeddingRequest, TextsToEmbed
from service.generation.requests.parameters import LogprobsOptions, Range, SamplingParams, StopParams
from service.generation.requests.ranking import RankingOutput, TextsToRank
from service.generation.requests.request import GenerationRequest
from service.generation.requests.resume import ResumePoint, StreamIdentity, StreamPosition
from service.generation.service_level import ServiceLevel
from service.generation.stats import EngineStats

SAMPLING = SamplingParams(temperature=0.5, top_k=3, seed=2**64 - 1, logit_bias={5: -1.0})
STOPPING = StopParams(9, 2, ("a",), (3,), ignore_eos=True)
LOGPROBS = LogprobsOptions(4)
MARKERS = ReasoningMarkers("<think>", "</think>")
LIMIT = ReasoningLimit(MARKERS, ReasoningStart.OPEN, 7, must_open=True)
GRAMMAR = Grammar("start: /a/\n", "f", schemas={"f": "{}"})
TIMINGS = Timings(1.0, 2.0, 3.0, None, num_preemptions=1)
LOGPROB = TokenLogprob(1, -0.5, ((2, -1.5),))
SPELLED = DecodedLogprob(1, b"\xc3", -0.5, (DecodedLogprob(2, b"a", -1.5),))
CALL = FunctionCall("1", "f", "{}")
IMAGE, FILE = ImagePart("u", "f"), FilePart("f", file_id="i")
MESSAGE = Message(Role.ASSISTANT, (TextPart("a"), IMAGE, FILE), (CALL,), "", "n", "r", "f", "g")
FUNCTION = Function("f", "d", "{}", strict=True, field="tools[0].function")
CHOICE = ToolChoice(ToolMode.REQUIRED, "f")
CONVERSATION = Conversation((MESSAGE,), (FUNCTION,), CHOICE, reasoning_effort=ReasoningEffort.LOW)
IDENTITY = StreamIdentity("0" * 32, 1, "m", "fp", 7, b"digest")
FORMAT = JsonSchema("{}", strict=True, field="f")

VALUES: list[Any] = [
    Limits(requests_per_minute=3),
    Caller("a", scopes=frozenset({Scope.EMBED}), limits_by_model={"m": Limits(max_n=1)}),
    SAMPLING,
    STOPPING,
    LOGPROBS,
    Range(at_least=0.0, below=2.0),
    MARKERS,
    LIMIT,
    GRAMMAR,
    Constraint(GRAMMAR, LIMIT),
    TextPart("a"),
    IMAGE,
    FILE,
    CALL,
    MESSAGE,
    FUNCTION,
    CHOICE,
    CONVERSATION,
    ImageForm("<i>", "<i><s></i>", 3, 1),
    RawText("a", "f"),
    RawTokens([1, 2], "f"),
    JsonObject("f"),
    FORMAT,
    Regex("a", "f"),
    TextGrammar("start: /a/", "f"),
    Opening(("<a>",)),
    TextChoice(("a", "b"), "f"),
    AnswerRequest("m", (CONVERSATION,), "f", sampling=SAMPLING, stopping=STOPPING, output_format=FORMAT),
    GenerationRequest("r", [1], SAMPLING, STOPPING, 2, LOGPROBS, LOGPROBS, Constraint(GRAMMAR, LIMIT), 3.5),
    TIMINGS,
    LOGPROB,
    GenerationOutput(0, (1,), (2.0,), "a", TIMINGS, 1, (1,), (LOGPROB,), (LOGPROB,), FinishReason.STOP_SEQUENCE, "!"),
    PrefillProgress(1, 5, 2, 3.0, 4.5),
    ServiceLevel(0.5, 0.05),
    EngineStats(num_waiting=1, step_time_s=0.5),
    TextsToEmbed("m", (RawText("a", "f"),), dimensions=3),
    Started("i", 1, "m", "v", "fp", SAMPLING, STOPPING, 2, 1, ("a",), load_wait_s=0.5),
    Tokens(0, (1,), (2.0,), TIMINGS, 1),
    SPELLED,
    PromptProgress(9, 2, 5, 0.5),
    PromptLogprobs(0, (SPELLED,)),
    Text(0, "a", (SPELLED,)),
    Reasoning(0, "a"),
    ToolCall(0, 1, "i", "f"),
    ToolArguments(0, 1, "{}"),
    ChoiceFinished(0, FinishReason.LENGTH, None),
    Usage(1, 2, 3, 4),
    Completed(),
    AdapterLoaded(8, 4096, "0a"),
    IDENTITY,
    StreamPosition(3, (2, 1), 1, 5, 16),
    ResumePoint(IDENTITY, StreamPosition(3, (2,)), 4, replays=True),
]
OF_ARRAYS: list[Any] = [
    EmbeddingRequest("r", [np.array([1, 2], dtype=np.int64)], 3.5, "k", 2.0, -1),
    TextsToRank("m", ("q",), ("a", "b"), max_document_tokens=3),
    RankingOutput((0.5, 1.5), 1.0, 2.0, 3.0),
    EmbeddingOutput([np.array([0.5, 1.5], dtype=np.float32)], 1.0, 2.0, 3.0),
    PreprocessedImage(b"d", np.zeros((3, 1, 2), dtype=np.uint8)),
    PromptImage(1, 3, b"d", np.zeros((3, 1, 2), dtype=np.uint8)),
]
ERRORS: list[errors.ServiceError] = [
    errors.ServiceError("a"),
    errors.EngineError("a"),
    errors.InvalidRequest("f", "m"),
    errors.PromptTooLong("f", 9, 8),
    errors.UnsupportedModality("f", "m"),
    errors.TemplateRejected("f", "m"),
    errors.UnsupportedConstraint("f", "m"),
    errors.UnsupportedFeature("f", "m"),
    errors.UnsupportedTask("m"),
    errors.RetryLater("m", 2.5),
    errors.EngineOverloaded("m", 2.5, for_all=True),
    errors.DeadlineExceeded("m"),
    errors.EngineClosed("m"),
    errors.EngineRestarting("m", 2.5),
    errors.EngineFailed("m"),
    errors.SequenceError("m"),
    errors.ConstraintFailed("m"),
    errors.CannotResume("m"),
    errors.AdapterRejected("m"),
    errors.AdapterLost("m"),
    errors.TooManyAdapters("m"),
    errors.CannotSleep("m"),
    errors.EngineAsleep("m", 2.5),
    errors.ModelLoadError("m"),
    errors.ModelChanged("m"),
]


def copy_of(value: Any) -> Any:
    return pickle.loads(pickle.dumps(value))  # noqa: S301  pickled here


def kinds() -> Iterator[type]:
    """Yield all classes that the package defines."""
    for module in pkgutil.walk_packages(service.generation.__path__, "service.generation."):
        for _, kind in inspect.getmembers(importlib.import_module(module.name), inspect.isclass):
            if kind.__module__ == module.name:
                yield kind


def test_every_class_of_values_is_listed() -> None:
    """A new class must be added to the lists above."""
    tried = {type(value) for value in (*VALUES, *OF_ARRAYS, *ERRORS)}
    assert tried == {kind for kind in kinds() if not issubclass(kind, enum.Enum)}


@pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
def test_value_is_equal_to_its_copy(value: Any) -> None:
    """A value equals its copy."""
    copy = copy_of(value)
    assert (copy, type(copy)) == (value, type(value))


@pytest.mark.parametrize("value", OF_ARRAYS, ids=lambda value: type(value).__name__)
def test_arrays_are_equal_to_their_copies(value: Any) -> None:
    """Arrays equal their copies, including the type of their numbers."""
    copy = copy_of(value)
    for field in dataclasses.fields(value):
        given, copied = getattr(value, field.name), getattr(copy, field.name)
        if isinstance(given, np.ndarray):
            given, copied = [given], [copied]
        if isinstance(given, list):
            assert [(each.dtype, each.tolist()) for each in copied] == [(each.dtype, each.tolist()) for each in given]
        else:
            assert copied == given


@pytest.mark.parametrize("kind", [kind for kind in kinds() if issubclass(kind, enum.Enum)])
def test_members_stay_the_same_objects(kind: type[enum.Enum]) -> None:
    """Members are the same objects after unpickling, so they can be compared by identity."""
    assert all(copy_of(member) is member for member in kind)


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_error_has_its_class_text_and_attributes(error: errors.ServiceError) -> None:
    """The error's text and values are those of its copy."""
    copy = copy_of(error)
    assert (type(copy), str(copy), copy.args, vars(copy)) == (type(error), str(error), error.args, vars(error))


@pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
def test_values_are_immutable(value: Any) -> None:
    """No process changes a value that another one holds."""
    names = [field.name for field in dataclasses.fields(value)] if dataclasses.is_dataclass(value) else value._fields
    for name in names:
        with pytest.raises(AttributeError):
            setattr(value, name, None)
