"""Results of tools find their calls."""

from __future__ import annotations

import random

from gateway.dialects.seam.history import OpenCalls

NAMES = ("f", "g", None)


def expected(calls: list[tuple[str, str, bool]], call_id: str | None, name: str | None) -> str:
    """Remove the call that a result belongs to from `calls`, each an id, a name and whether the id is the client's."""
    of_id = [call for call in calls if call[0] == call_id]
    possible = [call for call in calls if not (call_id and call[2])]
    of_name = [call for call in possible if call[1] == name]
    for found in (of_id, of_name, possible):
        if found:
            calls.remove(found[0])
            return found[0][0]
    return call_id or ""


def test_results_belong_to_calls_by_id_name_and_order() -> None:
    """For any order of calls and results the call is the one that a search of the list finds."""
    for seed in range(200):
        draw = random.Random(seed)
        open_calls, calls = OpenCalls(), []
        for number in range(40):
            given_id = draw.choice([None, "", f"c{number}"])
            name = draw.choice(NAMES)
            if draw.random() < 0.5:
                call_id = open_calls.add(given_id, name or "h")
                calls.append((call_id, name or "h", bool(given_id)))
            else:
                wanted = draw.choice([given_id, *[call[0] for call in calls]])
                assert open_calls.answered(wanted, name) == expected(calls, wanted, name)
