"""The figures of answers that consist of few texts or are rejected."""

from __future__ import annotations

import pytest

from bench.serving.scenarios import SIZES, arrivals, late_of, of_wave


class FewTexts:
    """A load whose answers have `num_texts` texts, 10 ms apart."""

    seed = 0

    def __init__(self, num_texts: int) -> None:
        self._num_texts = num_texts

    def prompt(self, num_tokens: int) -> str:
        return "word " * num_tokens

    def request(self, prompt: str, num_tokens: int, at: float = 0.0) -> float:
        return at

    def send(self, requests: list[float], *, may_refuse: bool = False) -> list[dict[str, object]]:
        times = [0.01 * number for number in range(1, self._num_texts + 1)]
        return [
            {"sent": at, "received": [at + time for time in times], "tokens": 9, "prompt_tokens": 32} for at in requests
        ]


@pytest.mark.parametrize(("num_texts", "gap_s"), [(1, 0.0), (2, 0.01), (3, 0.01)])
def test_answers_of_few_texts_are_counted(num_texts: int, gap_s: float) -> None:
    """Short answers may have one or two texts, since tokens are merged; they are good if the first is in time."""
    load = FewTexts(num_texts)
    found = arrivals(load, SIZES["5m"], {"rate": 12})  # type: ignore[arg-type]
    assert found["good"] == 1
    assert found["gap_s"] == pytest.approx(gap_s)
    wave = of_wave(load.send([0.0, 0.0]))
    assert wave["gap_p95_s"] == pytest.approx(gap_s)
    assert late_of([0.01] * 18 + [0.5] * 2) == pytest.approx(0.5)


class Busy(FewTexts):
    """A load whose server rejects every second request."""

    def send(self, requests: list[float], *, may_refuse: bool = False) -> list[dict[str, object]]:
        assert may_refuse
        answers = super().send(requests)
        return [{"error": "HTTP 429: busy"} if number % 2 else answer for number, answer in enumerate(answers)]


def test_a_refused_arrival_is_not_good() -> None:
    """Open-loop arrivals may exceed a server's limits; the times are those of the other requests."""
    found = arrivals(Busy(3), SIZES["5m"], {"rate": 12})  # type: ignore[arg-type]
    assert found["refused"] == pytest.approx(0.5, abs=0.01)
    assert found["good"] == pytest.approx(1 - found["refused"])
    assert found["gap_s"] == pytest.approx(0.01)


@pytest.mark.parametrize("num_answered", [0, 1])
def test_a_server_that_refuses_all_but_one_is_measured(num_answered: int) -> None:
    """A run with rejections is measured; without an answer there are no times."""

    class Full(Busy):
        def send(self, requests: list[float], *, may_refuse: bool = False) -> list[dict[str, object]]:
            refusals: list[dict[str, object]] = [{"error": "HTTP 429: busy"} for _ in requests[num_answered:]]
            return FewTexts.send(self, requests[:num_answered]) + refusals

    found = arrivals(Full(3), SIZES["5m"], {"rate": 12})  # type: ignore[arg-type]
    assert found["refused"] == pytest.approx(1, abs=0.02)
    assert found["first_token_p95_s"] == pytest.approx(0.01 * num_answered)
