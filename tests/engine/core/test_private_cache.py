"""Cached prompts are found within their group only; for other groups a cached prompt costs as much as a new one."""

from __future__ import annotations

import random

from tests.engine.fakes import request
from tests.engine.started_engine import Starter, generate

PROMPT = "you are the assistant of a bank; the customer's number is 4711. " * 2


async def costs(start: Starter, *requests: tuple[str, str, str]) -> list[tuple[int, int, int]]:
    """Return the cached tokens, steps and computed tokens of each (prompt, group, salt), run in order on one engine."""
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


async def test_another_group_s_prompt_costs_as_much_as_a_new_one(start_thread: Starter) -> None:
    """Another group's prompt takes as many steps and tokens as a new one and reports no cached token.

    A prompt of the same group and salt costs less.
    """
    new = "a prompt that is not cached".ljust(len(PROMPT))
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
    """For 300 requests of four groups, the reported cached tokens match the group's own earlier prompts."""
    draw = random.Random(4)
    requests = [
        (draw.choice("ab") * 40 + draw.choice("cd") * 40, f"key {draw.choice('1234')}", draw.choice(["", "s"]))
        for _ in range(300)
    ]
    seen: dict[tuple[str, str], set[str]] = {}
    hits = 0
    for (prompt, group, salt), (num_cached, _, _) in zip(requests, await costs(start_thread, *requests), strict=True):
        known = seen.setdefault((group, salt), set())
        longest = max((common(prompt, each) for each in known), default=0)
        assert num_cached == min(longest, len(prompt) - 1) // 4 * 4
        known.add(prompt)
        hits += num_cached > 0
    assert hits > 200


def common(one: str, other: str) -> int:
    """Return the length of the common prefix."""
    return next((i for i, (a, b) in enumerate(zip(one, other, strict=True)) if a != b), len(one))
