"""The number of files that name a parameter is limited."""

from __future__ import annotations

import pytest

from tools.parameter_counts import DRAW_LIMIT, EFFECT_LIMIT, Count, limits, main


def test_every_parameter_is_within_its_file_limit(capsys: pytest.CaptureFixture[str]) -> None:
    assert main() == 0, capsys.readouterr().err
    lines = capsys.readouterr().out.splitlines()
    assert {line.split()[0] for line in lines} >= {"temperature", "logit_bias", "min_tokens"}


def test_draw_parameters_have_a_higher_file_limit_than_effects() -> None:
    assert limits()["typical_p"] == DRAW_LIMIT
    assert limits()["repetition_penalty"] == limits()["min_tokens"] == EFFECT_LIMIT


@pytest.mark.parametrize(
    ("count", "faults"),
    [
        (Count("top_a", 6, 6, {"openai": 1, "mindie": 1}), []),
        (Count("top_a", 6, 7, {}), ["top_a stands in 7 files, at most 6 are allowed"]),
        (Count("top_a", 6, 5, {"openai": 2}), ["top_a stands in 2 files of openai, at most 1 are allowed"]),
        (Count("top_k", 6, 6, {"openai": 3}), []),
    ],
)
def test_parameter_above_its_limit_is_reported(count: Count, faults: list[str]) -> None:
    assert count.faults == faults
