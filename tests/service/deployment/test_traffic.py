"""How requests are split among an endpoint's entities."""

from collections import Counter
from random import Random

import pytest

from service.contract.models.model import to_entities
from service.generation.errors import InvalidRequest
from service.registry.description import ServedEntity
from service.registry.traffic import check_shares, draw_entity, largest_entity
from tests.service import endpoint_fakes


def entities_of(*shares: tuple[str, str, int]) -> tuple[ServedEntity, ...]:
    return to_entities(endpoint_fakes.entities_of(*shares))


SHARES = [(100,), (50, 50), (1, 99), (0, 100), (100, 0), (33, 33, 34), (0, 0, 100)]


@pytest.mark.parametrize("shares", SHARES)
def test_each_entity_gets_exactly_its_share_of_all_draws(shares: tuple[int, ...]) -> None:
    """Of the hundred equally likely draws, an entity gets exactly its percentage."""
    entities = entities_of(*((str(index), "m", share) for index, share in enumerate(shares)))
    places = iter(range(100))
    counts = Counter(draw_entity(entities, lambda _: next(places)).name for _ in range(100))
    assert [counts[entity.name] for entity in entities] == list(shares)


def test_draws_depend_only_on_their_random_numbers() -> None:
    """The same seed draws the same entities, by uniform numbers below a hundred."""
    entities = entities_of(("a", "m", 30), ("b", "m", 70))
    first, second = Random(7), Random(7)
    names = [draw_entity(entities, first.randrange).name for _ in range(50)]
    assert names == [draw_entity(entities, second.randrange).name for _ in range(50)]
    assert set(names) == {"a", "b"}


@pytest.mark.parametrize(("shares", "total"), [((50, 49), 99), ((50, 51), 101), ((0,), 0), ((100, 100), 200)])
def test_traffic_percentages_must_add_up_to_100(shares: tuple[int, ...], total: int) -> None:
    """The error names the field, the rule and the sum."""
    with pytest.raises(InvalidRequest, match=f"must add up to 100, not {total}$") as caught:
        check_shares(entities_of(*((str(index), "m", share) for index, share in enumerate(shares))))
    assert caught.value.field == "entities"


def test_first_of_several_largest_entities_is_returned() -> None:
    """Of equal percentages, the first entity is returned."""
    assert largest_entity(entities_of(("a", "m", 20), ("b", "m", 40), ("c", "m", 40))).name == "b"
