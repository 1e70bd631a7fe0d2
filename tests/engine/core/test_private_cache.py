"""Cached prompts are found by those who may find them, and for anybody else a prompt costs what a new one costs."""

from __future__ import annotations

import random

from tests.engine.fakes import request
from tests.engine.started_engine import Starter, generate

PROMPT = "you are the assistant of a bank; the customer's number is 4711. " * 2


async def costs(start: Starter, *requests: tuple[str, str, str]) -> list[tuple[int, int, int]]:
    """(cached tokens told, steps, computed tokens) of each (prompt, group, salt), one after the other on one engine."""
    found = []
    async with start.started(num_blocks=2000, max_model_len=400) as (engine, _):
        before = engine.stats()
        for prompt, group, salt in requests:
            outputs = await generate(engine, request(prompt, max_tokens=3, cache_group=group, cache_salt=salt))
            after = engine.stats()
            steps, tokens = after.num_steps - before.num_steps, after.num_computed_tokens - before.num_computed_tokens
            found.append((outputs[0].num_cached_tokens, steps, tokens))
            before = after
    return found


async def test_another_group_s_prompt_costs_what_a_new_one_costs(start_thread: Starter) -> None:
    """As many steps and computed tokens, and no cached token is told; one's own costs less, with the same salt only."""
    new = "a prompt nobody sent before".ljust(len(PROMPT))
    mine, other, unknown, again, salted = await costs(
        start_thread,
        (PROMPT, "key mine", ""),
        (PROMPT, "key other", ""),
        (new, "key other", ""),
        (PROMPT, "key mine", ""),
        (PROMPT, "key mine", "salt"),
    )
    assert mine == other == unknown == salted
    assert mine[0] == 0
    assert again[0] > 100
    assert again[2] < mine[2] - 100


async def test_no_block_of_another_group_is_ever_found(start_thread: Starter) -> None:
    """300 requests of four groups with few prompts: what each is told as cached was its own group's before."""
    draw = random.Random(4)
    requests = [
        (draw.choice("ab") * 40 + draw.choice("cd") * 40, f"key {draw.choice('1234')}", draw.choice(["", "s"]))
        for _ in range(300)
    ]
    seen: dict[tuple[str, str], set[str]] = {}
    hits = 0
    for (prompt, *whose), (num_cached, _, _) in zip(requests, await costs(start_thread, *requests), strict=True):
        known = seen.setdefault((whose[0], whose[1]), set())
        longest = max((common(prompt, each) for each in known), default=0)
        assert num_cached == min(longest, len(prompt) - 1) // 4 * 4
        known.add(prompt)
        hits += num_cached > 0
    assert hits > 200


def common(one: str, other: str) -> int:
    """How many characters both begin with."""
    return next((i for i, (a, b) in enumerate(zip(one, other, strict=True)) if a != b), len(one))
