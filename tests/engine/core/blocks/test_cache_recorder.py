"""The events of the cache: what a caller learns of its own blocks, and that they agree with the block pool."""

from __future__ import annotations

import random

from service.engine.core.blocks.cache_recorder import MAX_PENDING, CacheRecorder
from service.engine.core.sequences.sequence import Sequence
from service.engine.interface.cache_events import BlocksRemoved, BlocksStored, CacheCleared, CacheEvent
from service.generation.prompts.image import PromptImage
from tests.engine.fakes import Bench, config_of, group_of, request
from tests.engine.paged_runner import BLOCK_SIZE


class Index:
    """What a router knows after the events of one caller."""

    def __init__(self) -> None:
        self.prefixes: dict[int, tuple[int, ...]] = {}  # the tokens up to the end of each block, by its hash

    def apply(self, *events: CacheEvent) -> None:
        for event in events:
            match event:
                case BlocksStored(_, hashes, parent, token_ids):
                    tokens = () if parent is None else self.prefixes[parent]
                    assert len(token_ids) == len(hashes) * BLOCK_SIZE
                    for index, each in enumerate(hashes):
                        tokens += tuple(token_ids[index * BLOCK_SIZE : (index + 1) * BLOCK_SIZE])
                        assert each not in self.prefixes, "stored twice"
                        self.prefixes[each] = tokens
                case BlocksRemoved(_, hashes):
                    for each in hashes:
                        del self.prefixes[each]
                case CacheCleared():
                    self.prefixes.clear()


def run(bench: Bench, prompt: str, caller_id: str = "me", **fields: object) -> list[CacheEvent]:
    """Return the events of one request."""
    bench.add(request(prompt, max_tokens=1, caller_id=caller_id, **fields))  # type: ignore[arg-type]
    bench.run()
    return bench.pool.recorder.take()


def text(event: BlocksStored) -> bytes:
    """Return the text of an event's blocks."""
    return bytes(list(event.token_ids))


def sequence_of(prompt: str) -> Sequence:
    return group_of(request(prompt, caller_id="me")).sequences[0]


def watched(*callers: str, **sizes: object) -> Bench:
    bench = Bench(config_of(**sizes))
    bench.pool.recorder.watch(callers or ("me",))
    return bench


def test_blocks_are_reported_once_with_their_tokens_and_the_block_before_them() -> None:
    bench = watched()
    (first,) = run(bench, "abcdefgh+")
    assert isinstance(first, BlocksStored)
    assert (text(first), first.parent, len(first.hashes)) == (b"abcdefgh", None, 2)
    assert not run(bench, "abcdefgh+")
    (longer,) = run(bench, "abcdefghijkl+")
    assert isinstance(longer, BlocksStored)
    assert (text(longer), longer.parent) == (b"ijkl", first.hashes[-1])


def test_only_watching_callers_have_events_and_of_their_own_requests() -> None:
    """Callers share a cache here. One that watches learns of a block that it could use, when it has sent its tokens."""
    bench = watched("me")
    assert not run(bench, "the secret of another", "other")
    assert not run(bench, "the s3cret", "other")
    stored = run(bench, "the secret is")
    assert b"".join(text(each) for each in stored if isinstance(each, BlocksStored)) == b"the secret i"
    run(bench, "x" * 4 * 64, "other")
    bench.pool.recorder.watch(())
    assert not bench.pool.recorder.is_on
    assert not run(bench, "abcdefgh+")


def test_removals_are_reported_to_those_who_know_the_block() -> None:
    """Blocks of others are evicted without a word."""
    bench = watched("me", "you", num_blocks=8)
    (stored,) = run(bench, "abcd+")
    assert isinstance(stored, BlocksStored)
    run(bench, "wxyzwxyz+", "other")
    events: list[CacheEvent] = []
    for number in range(8):
        events += run(bench, f"{number}" * 12 + "+", "other")
    assert events == [BlocksRemoved("me", stored.hashes)]


def test_adapter_and_salt_of_the_request_are_part_of_the_event() -> None:
    bench = watched()
    plain, salted = run(bench, "abcd+") + run(bench, "abcd+", cache_salt="s")
    assert isinstance(plain, BlocksStored)
    assert isinstance(salted, BlocksStored)
    assert (plain.cache_salt, salted.cache_salt) == ("", "s")
    assert plain.hashes != salted.hashes


def test_prompts_with_images_have_no_events() -> None:
    """Their tokens don't tell different images apart."""
    bench = watched()
    image = PromptImage(0, 2, b"digest", None)  # type: ignore[arg-type]
    assert not run(bench, "abcd+", images=(image,))


def test_a_caller_that_begins_to_watch_learns_of_earlier_blocks_when_it_uses_them() -> None:
    bench = Bench()
    run(bench, "abcdefgh+")
    bench.pool.recorder.watch(["me"])
    index = Index()
    index.apply(*run(bench, "abcdefghijkl+"))
    assert bytes(max(index.prefixes.values(), key=len)) == b"abcdefghijkl"
    group = bench.add(request("0123456789abcdef", max_tokens=20, caller_id="you"))
    bench.step()
    bench.pool.recorder.watch(["me", "you"])  # in the middle of an answer
    bench.run()
    index = Index()
    index.apply(*bench.pool.recorder.take())
    num_full = (len(group.sequences[0].token_ids) - 1) // BLOCK_SIZE
    assert len(index.prefixes) == num_full


def test_too_many_events_are_replaced_by_one_that_clears_the_index() -> None:
    """Blocks that are used afterwards are reported again."""
    recorder = CacheRecorder(BLOCK_SIZE, lambda _: True)
    recorder.watch(["me"])
    first = sequence_of("abcd+")
    recorder.add(first, 0, 1)
    for number in range(MAX_PENDING):
        recorder.add(sequence_of(f"{number:04}+"), 0, 1)
    assert recorder.take() == [CacheCleared()]
    recorder.add(first, 0, 1)
    (again,) = recorder.take()
    assert isinstance(again, BlocksStored)
    assert text(again) == b"abcd"


def test_the_index_of_random_requests_is_what_the_cache_has() -> None:
    """With prefixes in common, evictions and preemptions; every parent is known, and nothing is stored twice.

    A block whose predecessors were evicted is not reported until it can be used again.
    """
    draw = random.Random(7)
    for seed in range(20):
        sizes = {"num_blocks": draw.choice((8, 16, 40)), "max_batch_tokens": draw.choice((5, 64))}
        bench = watched(**sizes, max_model_len=28, max_batch_sequences=4)
        index = Index()
        for _ in range(30):
            prompt = "".join(draw.choice("ab") for _ in range(draw.randint(1, 20)))
            bench.add(request(prompt, max_tokens=draw.randint(1, 6), seed=seed, caller_id="me"))
            for _ in range(draw.randint(0, 4)):
                bench.step()
            index.apply(*bench.pool.recorder.take())
        bench.run()
        index.apply(*bench.pool.recorder.take())
        cached = {int.from_bytes(key[:8], signed=True) for key, _ in bench.pool.contents()}
        assert index.prefixes.keys() <= cached
        index.apply(*run(bench, prompt))
        assert len(prompt) < BLOCK_SIZE + 1 or tuple(prompt.encode()[:BLOCK_SIZE]) in index.prefixes.values()
