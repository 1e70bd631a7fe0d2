"""Split an endpoint's requests among its entities by their traffic percentages, which add up to 100."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import TypeAlias

from service.generation.errors import InvalidRequest
from service.registry.description import ServedEntity

Draw: TypeAlias = Callable[[int], int]  # returns a uniform integer from 0 to n - 1

WHOLE = 100


def check_shares(entities: Sequence[ServedEntity]) -> None:
    """Raise InvalidRequest if the percentages don't add up to 100."""
    total = sum(entity.traffic_percentage for entity in entities)
    if total != WHOLE:
        raise InvalidRequest("entities", f"traffic_percentage must add up to {WHOLE}, not {total}")


def largest_entity(entities: Sequence[ServedEntity]) -> ServedEntity:
    """Return the entity with the largest percentage; of several, the first."""
    return max(entities, key=lambda entity: entity.traffic_percentage)


def draw_entity(entities: Sequence[ServedEntity], draw: Draw = random.randrange) -> ServedEntity:
    """Return an entity drawn with its percentage as probability."""
    remaining = draw(WHOLE)
    for entity in entities:
        remaining -= entity.traffic_percentage
        if remaining < 0:
            return entity
    raise AssertionError("the percentages of an endpoint add up to 100")
