"""The scheduler with several keys: each key is served by its weight, and no key starves another one."""

from __future__ import annotations

from collections import Counter
from itertools import accumulate
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.generation.requests.parameters import LogprobsOptions
from tests.engine.fakes import Bench, config_of, request
from tests.engine.paged_runner import sums


def key_of(bench: Bench) -> dict[int, str]:
    """Return the key of each request, by serial."""
    return {serial: group.request.caller_id for serial, group in bench.groups.items()}


def served(bench: Bench) -> Counter[str]:
    """Return the number of tokens computed for each key."""
    keys = key_of(bench)
    total: Counter[str] = Counter()
    for step in bench.runner.steps:
        for serial, num_tokens in step:
            total[keys[serial]] += num_tokens
    return total


def flood(bench: Bench, num: int, **fields: Any) -> None:
    """Add `num` requests of one key that together occupy the engine for many steps."""
    for index in range(num):
        bench.add(request(f"flood {index:4}", ignore_eos=True, **{"max_tokens": 60, "caller_id": "flooder", **fields}))


@pytest.mark.parametrize("weights", [(1.0, 1.0), (1.0, 3.0), (0.5, 4.0)])
def test_prompts_are_computed_by_weight_within_one_step_s_budget(weights: tuple[float, float]) -> None:
    """While two keys have prompts, their services divided by weight differ by at most one step's budget."""
    budget = 16
    bench = Bench(config_of(max_batch_tokens=budget, max_batch_sequences=8, num_blocks=400))
    weight_of = dict(zip(("a", "b"), weights, strict=True))
    for index in range(60):
        for name, weight in weight_of.items():
            prompt = f"{name}{index:3}" * (1 + index % 4)
            bench.add(request(prompt, max_tokens=1, caller_id=name, weight=weight))
    while bench.waits("a") and bench.waits("b"):
        bench.step()
        total = served(bench)
        per_weight = [total[name] / weight for name, weight in weight_of.items()]
        assert abs(per_weight[0] - per_weight[1]) <= budget / min(weights)
    bench.run()
    bench.assert_idle()


@pytest.mark.slow
def test_a_polite_key_starts_immediately_during_a_flood() -> None:
    """While 160 requests of one key hold or await all slots, another key's only request starts in the next step."""
    bench = Bench(config_of(max_batch_sequences=8, num_blocks=800))
    flood(bench, 160)
    for _ in range(20):
        bench.step()
    polite = bench.add(request("hello", caller_id="polite", max_tokens=5))
    bench.step()
    assert bench.started[-1] == polite.serial
    for _ in range(4):
        bench.step()
    assert bench.tokens(polite.serial) == sums(b"hello", 5, 0)
    bench.run()
    assert all(bench.tokens(serial) == sums(f"flood {serial:4}".encode(), 60, 0) for serial in range(160))
    bench.assert_idle()


def test_a_flood_of_the_first_priority_delays_no_other_key() -> None:
    """Priority orders the requests of one key only."""
    bench = Bench(config_of(max_batch_sequences=2))
    flood(bench, 20, priority=-100)
    late = bench.add(request("hello", caller_id="polite", priority=100, max_tokens=2))
    bench.step()
    bench.step()
    assert late.serial in bench.started
    bench.run()
    bench.assert_idle()


def test_priority_orders_the_requests_of_one_key() -> None:
    """Each key's requests start in order of priority while the keys take turns."""
    bench = Bench(config_of(max_batch_sequences=1))
    for priority in (1, 0, -1):
        for name in "ab":
            bench.add(request("ab", max_tokens=1, priority=priority, caller_id=name))
    bench.run()
    assert [serial for serial in bench.started if serial % 2 == 0] == [4, 2, 0]
    assert [serial for serial in bench.started if serial % 2 == 1] == [5, 3, 1]


@pytest.mark.parametrize(
    ("fields", "more"),
    [
        ({"logprobs": LogprobsOptions(top_logprobs=15)}, 2),
        ({"logprobs": LogprobsOptions(top_logprobs=3, token_ids=range(12))}, 2),
        ({"prompt_logprobs": LogprobsOptions(top_logprobs=31)}, 3),
    ],
    ids=["top", "named", "prompt"],
)
def test_logprobs_cost_a_sixteenth_of_a_token_each(fields: dict[str, Any], more: int) -> None:
    """While two keys wait, a key with 16 logprobs for each token gets half as many, with 32 a third."""
    bench = Bench(config_of(max_batch_tokens=8, max_batch_sequences=1, num_blocks=400, prefix_caching=False))
    answer: dict[str, Any] = (
        {"prompt": "a", "max_tokens": 8} if "logprobs" in fields else {"prompt": "abcdefgh", "max_tokens": 1}
    )
    for _ in range(60):
        bench.add(request(**answer, caller_id="plain", ignore_eos=True))
        bench.add(request(**answer, caller_id="large", ignore_eos=True, **fields))
    while bench.waits("plain"):
        bench.step()
    total = served(bench)
    assert abs(total["plain"] - more * total["large"]) <= 8 * more
    bench.run()
    bench.assert_idle()


def test_an_idle_key_accumulates_no_credit() -> None:
    """A key that was idle while another one was served gets half of the service from then on, and no more."""
    bench = Bench(config_of(max_batch_tokens=8, max_batch_sequences=2, num_blocks=400, prefix_caching=False))
    bench.add(request("x", caller_id="late", max_tokens=1))
    bench.run()
    for index in range(100):
        bench.add(request(f"early {index:3}", caller_id="early", max_tokens=1))
    for _ in range(40):
        bench.step()
    before = served(bench)
    assert before["early"] > 100
    for index in range(40):
        bench.add(request(f"late {index:4}", caller_id="late", max_tokens=1))
    for _ in range(40):
        bench.step()
    gained = served(bench) - before
    assert abs(gained["late"] - gained["early"]) <= 16
    bench.run()
    bench.assert_idle()


def test_a_key_without_a_slot_gets_one_of_a_key_above_its_share() -> None:
    """If all slots are taken, the newest sequence of the greedy key is preempted.

    It completes later with the same tokens.
    """
    bench = Bench(config_of(max_batch_sequences=4, num_blocks=400))
    flood(bench, 4)
    bench.step()
    for _ in range(2):
        bench.add(request("hello", caller_id="polite", max_tokens=3))
    bench.step()
    bench.step()
    assert Counter(key_of(bench)[serial] for serial, _ in bench.runner.steps[-1]) == {"flooder": 2, "polite": 2}
    bench.run()
    assert [bench.outputs[serial, 0][-1].timings.num_preemptions for serial in range(4)] == [0, 0, 1, 1]
    assert all(bench.tokens(serial) == sums(f"flood {serial:4}".encode(), 60, 0) for serial in range(4))
    bench.assert_idle()


def test_keys_with_their_share_are_not_preempted() -> None:
    """If there are more keys than slots, no sequence is preempted for a key with an equal share."""
    bench = Bench(config_of(max_batch_sequences=2, num_blocks=400))
    for index in range(6):
        bench.add(request(f"prompt {index}", caller_id=f"key {index}", max_tokens=20, ignore_eos=True))
    bench.run()
    assert bench.core.stats().num_preemptions == 0
    assert bench.started == list(range(6))


def test_a_key_without_blocks_gets_blocks_of_the_greedy_key() -> None:
    """While one key's sequences fill the cache, another key's prompt starts although too few blocks are free."""
    bench = Bench(config_of(max_batch_sequences=16, num_blocks=32, max_model_len=64))
    flood(bench, 6, max_tokens=40)
    while bench.core.stats().num_free_blocks > 6:
        bench.step()
    polite = bench.add(request("p" * 20, caller_id="polite", max_tokens=2))
    bench.step()
    assert polite.serial in bench.started
    bench.run()
    bench.assert_idle()


def test_an_admitted_request_is_served_however_long_it_waits() -> None:
    """Requests are rejected on arrival or not at all, also if they are preempted and queued again."""
    bench = Bench(config_of(num_blocks=6, max_model_len=24, max_queue_wait_s=2.0))
    bench.add(request("a" * 7, max_tokens=16))
    bench.add(request("b" * 7, max_tokens=10))
    bench.add(request("c" * 7, max_tokens=10))
    while bench.core.has_work:
        bench.step()
        bench.clock.now += 30
    assert bench.core.stats().num_preemptions > 0
    assert bench.errors == {}
    assert bench.tokens(2) == sums(b"c" * 7, 10, 0)


@pytest.mark.slow
@settings(max_examples=80)
@given(data=st.data())
def test_no_key_starves(data: st.DataObject) -> None:
    """With many keys of any weight and a flood, each request starts and generates the same tokens as alone.

    After a key's first request arrives, the service to others before its start is bounded by one prompt per key with as
    little service and by the sequences that already run.
    """
    num_slots = data.draw(st.integers(1, 6), "num_slots")
    budget = data.draw(st.integers(num_slots, 32), "budget")
    bench = Bench(
        config_of(
            max_batch_tokens=budget,
            max_batch_sequences=num_slots,
            num_blocks=data.draw(st.integers(16, 60), "blocks"),
            max_model_len=40,
            prefix_caching=data.draw(st.booleans(), "prefix_caching"),
        )
    )
    flood(bench, 25, max_tokens=12, priority=-100, weight=data.draw(st.sampled_from([0.1, 1.0, 10.0]), "flood"))
    for _ in range(data.draw(st.integers(0, 10), "before")):
        bench.step()
    arrived: dict[int, int] = {}
    num_keys = data.draw(st.integers(1, 6), "keys")
    for name in range(num_keys):
        prompt = data.draw(st.text("ab", min_size=1, max_size=20))
        weight = data.draw(st.sampled_from([1.0, 2.0]))
        group = bench.add(request(prompt, max_tokens=6, ignore_eos=True, caller_id=f"{name}", weight=weight))
        arrived[group.serial] = len(bench.runner.steps)
        for _ in range(data.draw(st.integers(0, 3), "pause")):
            bench.step()
    bench.run()
    bench.assert_idle()
    totals = [0, *accumulate(sum(num for _, num in step) for step in bench.runner.steps)]
    first_step: dict[int, int] = {}
    for index, step in enumerate(bench.runner.steps):
        for serial, _ in step:
            first_step.setdefault(serial, index)
    assert set(first_step) == set(bench.groups)
    longest = 40 * (num_keys + num_slots + 1)  # tokens: a whole context of each key and of each running sequence
    for serial, before in arrived.items():
        waited_for = totals[first_step[serial]] - totals[before]
        assert waited_for <= longest + 2 * budget
    for serial, group in bench.groups.items():
        wanted = group.request.stopping.max_tokens
        assert wanted is not None
        assert bench.tokens(serial) == sums(group.request.prompt_token_ids, wanted, 0)
