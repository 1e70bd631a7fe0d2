"""Runners for tests of the core, which compute tokens from what they have stored in blocks and states."""

from __future__ import annotations

from collections import abc
from collections.abc import Callable, Iterable

from service.engine.core.engine_core import SampledToken
from service.engine.core.sequences.sequence import NO_BLOCK, Sequence
from service.engine.core.step import Step
from service.engine.interface.cache_group import ONE_GROUP, CacheGroup
from service.generation.errors import SequenceError
from service.generation.outputs.output import TokenLogprob
from tests.engine.byte_tokenizer import END

BLOCK_SIZE = 4
Rule = Callable[[Sequence, list[int]], int]


def sum_rule(sequence: Sequence, context: list[int]) -> int:
    """Return a byte that depends on all tokens before it, on their number, and on the seed."""
    return (31 * sum(context) + 7 * len(context) + sequence.seed) % 256


def sums(prompt: Iterable[int], num_tokens: int, seed: int) -> list[int]:
    """Return the tokens that `sum_rule` generates."""
    tokens = list(prompt)
    num_prompt_tokens = len(tokens)
    for _ in range(num_tokens):
        tokens.append((31 * sum(tokens) + 7 * len(tokens) + seed) % 256)
    return tokens[num_prompt_tokens:]


def say(*texts: str, end: bool = True) -> Rule:
    """Return a rule by which choice i generates text i, byte by byte, and then ends or starts again."""
    scripts: list[list[int]] = [[*text.encode(), *([END] if end else [])] for text in texts]

    def rule(sequence: Sequence, context: list[int]) -> int:
        script = scripts[sequence.choice_index % len(scripts)]
        return script[sequence.num_generated_tokens % len(script)]

    return rule


class PagedRunner:
    """Stores each computed token in the memory of its blocks, and samples from the tokens that it reads there.

    So a wrong block table, a block with two owners or a stale cached block changes the output. A group with a window
    reads only the tokens that are visible in it, and so does each token that is computed.
    """

    num_replays = 0

    def __init__(self, rule: Rule = sum_rule, block_size: int = BLOCK_SIZE) -> None:
        self.rule = rule
        self.block_size = block_size
        self.groups: abc.Sequence[CacheGroup] = ONE_GROUP
        self.steps: list[list[tuple[int, int]]] = []  # for each step: (serial, number of new tokens)
        self.memory: dict[tuple[int, int], int] = {}
        self.kept: set[Sequence] = set()
        self.fail_with: BaseException | None = None
        self.bad_sequences: set[tuple[int, int]] = set()  # (serial, choice index) that end with a SequenceError

    def run(self, step: Step) -> list[SampledToken | SequenceError | None]:
        if self.fail_with is not None:
            raise self.fail_with
        self.steps.append([(item.sequence.group.serial, item.num_new_tokens) for item in step.items])
        for item in step.items:
            sequence = item.sequence
            self.kept.add(sequence)
            start = sequence.num_computed_tokens
            new = [*sequence.token_ids[start : start + item.num_new_tokens], *item.draft]
            for group in range(len(self.groups)):
                for position, token_id in enumerate(new, start):
                    self.memory[self._location(sequence, group, position)] = token_id
            end = start + item.num_new_tokens
            assert self._read(sequence, start, end) == sequence.token_ids[:end]
        return [self._sample(item.sequence) if item.samples else None for item in step.items]

    def follow(self, sequences: abc.Sequence[Sequence]) -> list[SampledToken | SequenceError]:
        return [self._sample(sequence) for sequence in sequences]

    def release(self, sequence: Sequence) -> None:
        self.kept.remove(sequence)  # raises KeyError if it never ran or was released before

    def _location(self, sequence: Sequence, group: int, position: int) -> tuple[int, int]:
        block_id = sequence.block_tables[group][position // self.block_size]
        assert block_id != NO_BLOCK
        return block_id, position % self.block_size

    def _read(self, sequence: Sequence, first: int, end: int) -> list[int]:
        """Return the tokens up to `end`; those that a token at `first` attends to are read from the memory."""
        context = list(sequence.token_ids[:end])
        for index, group in enumerate(self.groups):
            for position in range(group.first_visible(first), end):
                stored = self.memory[self._location(sequence, index, position)]
                if stored != sequence.token_ids[position]:
                    context[position] = stored
        return context

    def _sample(self, sequence: Sequence) -> SampledToken | SequenceError:
        if (sequence.group.serial, sequence.choice_index) in self.bad_sequences:
            return SequenceError("no token is allowed")
        num_tokens = len(sequence.token_ids)
        token_id = self.rule(sequence, self._read(sequence, num_tokens - 1, num_tokens))
        if sequence.request.logprobs is None:
            return SampledToken(token_id)
        return SampledToken(token_id, TokenLogprob(token_id, -0.5))


class StateRunner(PagedRunner):
    """A PagedRunner with recurrent states: a state is the list of all tokens before it.

    The state must have the tokens of the sequence, as its blocks must.
    """

    def __init__(self, rule: Rule = sum_rule, block_size: int = BLOCK_SIZE) -> None:
        super().__init__(rule, block_size)
        self.states: dict[int, list[int]] = {}  # by slot
        self.rows: dict[Sequence, list[int]] = {}  # the tokens of a sequence up to the step's last one
        self.num_kept_states = 0

    def run(self, step: Step) -> list[SampledToken | SequenceError | None]:
        written: list[int] = []
        earlier = dict(self.states)
        for sequence, num_new, _, draft in step.items:
            state, start = sequence.state, sequence.num_computed_tokens
            assert state is not None
            new = [*sequence.token_ids[start : start + num_new], *draft]
            before = list(earlier[state.source]) if start else []
            num_kept = len(new) - state.num_last
            assert num_kept or start
            written += [state.slot] * (num_kept > 0) + [state.last_slot] * (state.num_last > 0)
            self.num_kept_states += state.num_last > 0
            if num_kept:
                self.states[state.slot] = before + new[:num_kept]
            if state.num_last:
                self.states[state.last_slot] = before + new
            self.rows[sequence] = before + new
        assert len(set(written)) == len(written)
        return super().run(step)

    def _sample(self, sequence: Sequence) -> SampledToken | SequenceError:
        assert self.rows[sequence][: len(sequence.token_ids)] == sequence.token_ids
        return super()._sample(sequence)
