"""An engine's outputs for given tokens, and the sums of pieces and events."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from service.engine.core.sequences.detokenizer import Detokenizer
from service.engine.tokens.tokenizer import FastTokenizer
from service.generation.outputs.events import (
    ChoiceFinished,
    DecodedLogprob,
    Delta,
    Event,
    Reasoning,
    Text,
    ToolArguments,
    ToolCall,
)
from service.generation.outputs.output import FinishReason, GenerationOutput, Timings, TokenLogprob
from service.generation.requests.parameters import StopParams


def outputs_of(
    tokenizer: FastTokenizer,
    token_ids: Sequence[int],
    *,
    cuts: Iterable[int] = (),
    stopping: StopParams = StopParams(),  # noqa: B008  immutable
    reason: FinishReason = FinishReason.END_OF_TEXT,
    hides_special: bool = True,
    choice_index: int = 0,
    request_index: int = 0,
) -> Iterator[GenerationOutput]:
    """Return the engine's outputs for these tokens, split at `cuts`; the last token ends the text.

    Without cuts there is one output per token. Each token has the logprob -1 minus its index.
    """
    detokenizer = Detokenizer(tokenizer, stopping.stop, skip_special_tokens=hides_special)
    text_ends = text_ends_of(tokenizer, token_ids, reason=reason, hides_special=hides_special)
    cuts = list(cuts) or list(range(1, len(token_ids)))
    begin = 0
    for end in [*cuts, len(token_ids)]:
        text, taken = "", begin
        finish = None
        for index in range(begin, end):
            taken += 1
            is_last = index == len(token_ids) - 1
            if not (is_last and reason is FinishReason.END_OF_TEXT):
                text += detokenizer.append(token_ids[index])
            if detokenizer.stop_sequence is not None:
                finish = FinishReason.STOP_SEQUENCE
                break
            if is_last:
                finish = reason
                text += detokenizer.flush()
        yield GenerationOutput(
            choice_index,
            token_ids=tuple(token_ids[begin:taken]),
            token_times=[float(index) for index in range(begin, taken)],
            text=text,
            timings=Timings(0.0, 0.0, 0.0, None if finish is None else float(taken - 1)),
            batch_size=1,
            text_ends=text_ends[begin:taken],
            logprobs=[TokenLogprob(token_ids[index], -1.0 - index) for index in range(begin, taken)],
            finish_reason=finish,
            stop_sequence=detokenizer.stop_sequence,
            request_index=request_index,
        )
        if finish is not None:
            return
        begin = end


def text_ends_of(
    tokenizer: FastTokenizer,
    token_ids: Sequence[int],
    *,
    reason: FinishReason = FinishReason.END_OF_TEXT,
    hides_special: bool = True,
) -> list[int]:
    """Return the number of characters up to each token, as the engine counts: without any held text."""
    detokenizer = Detokenizer(tokenizer, skip_special_tokens=hides_special)
    ends = []
    num_characters = 0
    for index, token_id in enumerate(token_ids):
        if index < len(token_ids) - 1 or reason is not FinishReason.END_OF_TEXT:
            num_characters += len(detokenizer.append(token_id))
        ends.append(num_characters)
    return ends


def join(deltas: Iterable[Delta]) -> tuple[str, str, list[tuple[str, str]]]:
    """Return the reasoning, the content and the calls in deltas."""
    reasoning = content = ""
    calls: list[tuple[str, str]] = []
    for delta in deltas:
        match delta:
            case Reasoning(_, text):
                reasoning += text
            case Text(_, text):
                content += text
            case ToolCall(_, _, _, name):
                calls.append((name, ""))
            case ToolArguments(_, _, text):
                calls[-1] = (calls[-1][0], calls[-1][1] + text)
    return reasoning, content, calls


@dataclass
class ChoiceResult:
    """The sum of one choice's events."""

    reasoning: str = ""
    text: str = ""
    calls: list[tuple[str, str]] = field(default_factory=list)  # name, arguments
    call_ids: list[str] = field(default_factory=list, compare=False)  # random
    logprobs: list[DecodedLogprob] = field(default_factory=list)
    reason: FinishReason | None = None
    stop_sequence: str | None = None

    def add(self, event: Event) -> None:
        match event:
            case Text(_, text, logprobs):
                self.text += text
                self.logprobs += logprobs
            case Reasoning(_, text):
                self.reasoning += text
            case ToolCall(_, call_index, call_id, name):
                assert call_index == len(self.calls)
                self.calls.append((name, ""))
                self.call_ids.append(call_id)
            case ToolArguments(_, call_index, text):
                name, arguments = self.calls[call_index]
                self.calls[call_index] = (name, arguments + text)
            case ChoiceFinished(_, reason, stop_sequence):
                assert self.reason is None
                self.reason, self.stop_sequence = reason, stop_sequence


def results_by_choice(events: Iterable[Event]) -> dict[int, ChoiceResult]:
    """Return the sum of the events by choice."""
    choices: dict[int, ChoiceResult] = {}
    for event in events:
        if isinstance(event, Text | Reasoning | ToolCall | ToolArguments | ChoiceFinished):
            choices.setdefault(event.choice_index, ChoiceResult()).add(event)
    return choices
