"""Random requests in a random engine, whose answers must be those without drafts."""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import strategies as st

from service.engine.core.drafts.drafter import Drafter
from service.engine.core.sequences.choice_seed import choice_seed
from tests.engine.fakes import Bench, config_of, request
from tests.engine.paged_runner import sums

_NUM_TOKENS = 9  # of an answer


def check_random_answers(data: st.DataObject, drafter_of: Callable[[int], Drafter]) -> Bench:
    """Run random requests with a drafter, assert that their tokens are those without it, and return the bench.

    `drafter_of` gets the number of blocks.
    """
    num_blocks = data.draw(st.integers(10, 40), "num_blocks")
    bench = Bench(
        config_of(
            num_blocks=num_blocks,
            max_model_len=40,
            max_batch_tokens=data.draw(st.integers(4, 64), "max_batch_tokens"),
            max_batch_sequences=data.draw(st.integers(1, 4), "max_batch_sequences"),
            prefix_caching=data.draw(st.booleans(), "prefix_caching"),
        ),
        drafter=drafter_of(num_blocks),
    )
    prompts = data.draw(st.lists(st.text("ab", min_size=1, max_size=30), min_size=1, max_size=6), "prompts")
    for prompt in prompts:
        bench.add(request(prompt, max_tokens=_NUM_TOKENS, n=data.draw(st.integers(1, 2), "n"), ignore_eos=True))
        for _ in range(data.draw(st.integers(0, 5), "steps")):
            bench.step()
            bench.clock.now += data.draw(st.sampled_from([0.0, 0.01, 0.05]), "seconds")
    bench.run()
    bench.assert_idle()
    for serial, index in bench.outputs:
        assert bench.tokens(serial, index) == sums(prompts[serial].encode(), _NUM_TOKENS, choice_seed(0, index))
    return bench
