"""The parts of a request that its caller determines: key, weight, priorities, and the shared cached prompts."""

from __future__ import annotations

import numpy as np
import pytest

from service.generation.caller import ANONYMOUS, Caller
from service.generation.errors import InvalidRequest
from service.generation.prompts.conversation import RawTokens
from service.generation.requests.embedding import TextsToEmbed
from service.generation.service_level import ServiceLevel
from service.prompting.preparation import Preparation
from service.prompts.embeddings.embedding import EmbeddingPrompts
from tests.service.preparation.fakes import TOKENIZER, chat, request_of

TEAM = Caller(id="k1", weight=2.5, min_priority=-10)


async def group_of(preparation: Preparation, caller: Caller) -> str:
    """Return the name of the group whose cached prompts the caller's requests use."""
    return request_of(await preparation.prepare(chat(cache_salt="s"), "r", None, caller)).cache_group


async def test_engine_request_has_the_keys_id_and_weight(preparation: Preparation) -> None:
    """The key's id and weight are passed to the engine, for generations and for embeddings."""
    generation = request_of(await preparation.prepare(chat(), "r", None, TEAM))
    assert (generation.caller_id, generation.weight) == ("k1", 2.5)
    texts = TextsToEmbed("tiny", [RawTokens([1, 2], "inputs[0]")])
    embedding = await EmbeddingPrompts(TOKENIZER, 16, 4).prepare(texts, "r", None, TEAM)
    assert (embedding.caller_id, embedding.weight) == ("k1", 2.5)
    assert np.array_equal(embedding.inputs[0], [1, 2])


async def test_cached_prompts_are_shared_by_an_explicit_group_only(preparation: Preparation) -> None:
    """Only keys of one group share prompts; a group and a key of one name don't; anonymous callers share theirs."""
    alone = [await group_of(preparation, Caller(id=name)) for name in ("k1", "k2")]
    grouped = [await group_of(preparation, Caller(id=name, cache_group="k1")) for name in ("k1", "k2")]
    anonymous = [await group_of(preparation, ANONYMOUS) for _ in range(2)]
    assert grouped[0] == grouped[1]
    assert anonymous[0] == anonymous[1]
    assert len({*alone, *grouped, *anonymous}) == 4


async def test_a_request_has_the_service_level_of_its_key_unless_it_sets_one(preparation: Preparation) -> None:
    """Each limit that the request doesn't set is the key's."""
    caller = Caller(id="k1", service_level=ServiceLevel(2.0, 0.1))
    levels = [
        request_of(await preparation.prepare(chat(service_level=own), "r", None, caller)).service_level
        for own in (ServiceLevel(), ServiceLevel(0.5), ServiceLevel(None, 1.0))
    ]
    assert levels == [(2.0, 0.1), (0.5, 0.1), (2.0, 1.0)]


@pytest.mark.parametrize(("caller", "lowest"), [(ANONYMOUS, 0), (TEAM, -10)])
async def test_priority_below_the_keys_minimum_is_rejected(
    preparation: Preparation, caller: Caller, lowest: int
) -> None:
    """The lowest allowed value is served; a lower one is rejected with name and limit, for embeddings too."""
    generation = request_of(await preparation.prepare(chat(priority=lowest), "r", None, caller))
    assert generation.priority == lowest
    with pytest.raises(InvalidRequest, match=f"priority must be at least {lowest} ") as caught:
        await preparation.prepare(chat(priority=lowest - 1), "r", None, caller)
    assert caught.value.field == "serving.priority"
    texts = TextsToEmbed("tiny", [RawTokens([1], "inputs[0]")], priority=lowest - 1)
    with pytest.raises(InvalidRequest, match=f"priority must be at least {lowest} "):
        await EmbeddingPrompts(TOKENIZER, 16, 4).prepare(texts, "r", None, caller)
