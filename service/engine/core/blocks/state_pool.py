"""The state pool: the slots of recurrent states, of running sequences and of cached prefixes.

A slot is a number; the backend stores its state.
"""

from __future__ import annotations

from collections import Counter, OrderedDict, abc

from service.engine.core.sequences.sequence_state import SequenceState

CHECKPOINT_INTERVAL = 64  # tokens between the checkpoints of an answer, of which the last one is kept


class StatePool:
    """`num_slots` slots, each of which is empty, held by a sequence, or a checkpoint.

    A checkpoint is the state after a prefix of whole blocks, identified by the hash of its last block. Checkpoints are
    evicted in least recently used order when no slot is empty. They are created without copies: the step that passes
    the end of the prefix continues in another slot.
    """

    def __init__(self, num_slots: int, num_sequences: int, slot_bytes: int = 0) -> None:
        """`num_sequences` is the number of sequences that run at a time, at most `num_slots`."""
        self.num_slots = num_slots
        self.num_spare = num_slots - num_sequences  # slots for checkpoints while all sequences run
        self.slot_bytes = slot_bytes
        self._num_left = num_sequences  # sequences that can start now, each of which needs a slot
        self._empty = list(range(num_slots - 1, -1, -1))
        self._checkpoints: OrderedDict[bytes, int] = OrderedDict()  # evicted from the start
        self._readers: Counter[int] = Counter()  # sequences that start from a checkpoint in the next step, by its slot

    @property
    def num_checkpoints(self) -> int:
        """The number of cached states."""
        return len(self._checkpoints)

    def __contains__(self, content: bytes) -> bool:
        return content in self._checkpoints

    def slot_of(self, content: bytes) -> int | None:
        """Return the slot of a checkpoint, or None if there is none of this content."""
        return self._checkpoints.get(content)

    def adopt(self, contents: abc.Sequence[tuple[bytes, int]]) -> None:
        """Make slots of a new pool checkpoints: the backend has their states. The first is the last to be evicted."""
        self._checkpoints = OrderedDict(reversed(contents))
        taken = set(self._checkpoints.values())
        self._empty = [slot for slot in self._empty if slot not in taken]

    def start(self, content: bytes = b"") -> SequenceState:
        """Return the state of a sequence that starts, from the checkpoint `content` unless it is empty.

        Raise RuntimeError if all slots are held.
        """
        num_available = len(self._empty) + len(self._checkpoints) - len(self._readers)
        if not num_available:
            raise RuntimeError("no slot is left for the state of a sequence")
        self._num_left -= 1
        source = None
        if content:
            source = self._checkpoints[content]
            self._checkpoints.move_to_end(content)
            if not self._readers[source] and num_available < self._num_left + 2:
                del self._checkpoints[content]  # the sequence takes it over, since others need the slots that are left
                return SequenceState(source, source)
            self._readers[source] += 1
        slot = self._take()
        assert slot is not None  # noqa: S101  they were counted above
        return SequenceState(slot, slot if source is None else source)

    def split(self, state: SequenceState, num_last: int, content: bytes = b"") -> bool:
        """Let the next step keep the state before its last `num_last` tokens. Return False if no slot is left.

        With `content` the kept state becomes a checkpoint.
        """
        if (target := self._take()) is None:
            return False
        state.num_last, state.last_slot, state.content = num_last, target, content
        return True

    def settle(self, state: SequenceState, *, keeps_last: bool) -> None:
        """End a step: continue with the state after the last tokens or, for rejected drafts, with that before them."""
        self._end_start(state)
        if state.num_last == 0:
            return
        state.num_last = 0
        if not keeps_last:
            self._empty.append(state.last_slot)
            return
        if state.content and state.content not in self._checkpoints:
            self._checkpoints[state.content] = state.slot
        else:
            self._empty.append(state.slot)
        state.slot = state.source = state.last_slot
        state.content = b""

    def release(self, state: SequenceState) -> None:
        """Release the slots of a sequence that ended or was preempted."""
        self._end_start(state)
        self._num_left += 1
        self._empty.append(state.slot)
        if state.num_last:
            self._empty.append(state.last_slot)

    def evict(self, content: bytes) -> None:
        """Drop a checkpoint, for example because a block of its prefix was evicted. Ignore unknown content."""
        slot = self._checkpoints.get(content)
        if slot is not None and not self._readers[slot]:
            del self._checkpoints[content]
            self._empty.append(slot)

    def check(self, states: abc.Iterable[SequenceState]) -> None:
        """Raise RuntimeError if a slot is lost or has two owners. `states` are those of all running sequences."""
        owners = Counter([*self._empty, *self._checkpoints.values()])
        for state in states:
            owners.update([state.slot] + [state.last_slot] * (state.num_last > 0))
        if owners != Counter(range(self.num_slots)):
            wrong = sorted(set(range(self.num_slots)) ^ {slot for slot, count in owners.items() if count == 1})
            raise RuntimeError(f"the slots of states {wrong} are lost or have several owners")

    def _end_start(self, state: SequenceState) -> None:
        """Note that a sequence no longer needs the checkpoint that it started from, if any."""
        if state.source != state.slot:
            self._stop_reading(state.source)
            state.source = state.slot

    def _stop_reading(self, slot: int) -> None:
        self._readers[slot] -= 1
        if not self._readers[slot]:
            del self._readers[slot]

    def _take(self) -> int | None:
        """Return an empty slot, after an eviction if there is none, or None if all slots are held."""
        if not self._empty:
            for content, slot in self._checkpoints.items():
                if not self._readers[slot]:
                    self.evict(content)
                    break
        return self._empty.pop() if self._empty else None
