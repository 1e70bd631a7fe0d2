"""Split an endpoint's requests among its entities.

Percentages add up to 100, and each request's entity is drawn by them.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import TypeAlias

from service.generation.errors import InvalidRequest
from service.registry.description import ServedEntity

Draw: TypeAlias = Callable[[int], int]  # of n, one of 0 … n - 1, each as likely

WHOLE = 100


def check_shares(entities: Sequence[ServedEntity]) -> None:
    """Raises InvalidRequest if the percentages don't add up to 100."""
    total = sum(entity.traffic_percentage for entity in entities)
    if total != WHOLE:
        raise InvalidRequest("entities", f"traffic_percentage must add up to {WHOLE}, not {total}")


def largest_entity(entities: Sequence[ServedEntity]) -> ServedEntity:
    """The one of `entities` that gets the most requests; of several, the first."""
    return max(entities, key=lambda entity: entity.traffic_percentage)


def draw_entity(entities: Sequence[ServedEntity], draw: Draw = random.randrange) -> ServedEntity:
    """One of `entities`, each as likely as its percentage says. These add up to 100."""
    place = draw(WHOLE)
    for entity in entities:
        place -= entity.traffic_percentage
        if place < 0:
            return entity
    raise AssertionError("the percentages of an endpoint add up to 100")
