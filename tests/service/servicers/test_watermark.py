"""WatermarkService on a real server, and the command that calls it."""

from __future__ import annotations

import asyncio
import random
import re
import sys
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest
from sluice.v1 import watermark_pb2, watermark_pb2_grpc

from service.engine.tokens.watermark import Watermark
from tests.service.fakes import MODEL, Running, rejection_of, running

PLAIN = "It was the best of times, it was the worst of times, it was the age of wisdom, it was the age of foolishness"


def green_text(num_bytes: int) -> str:
    """Return ASCII text in which every byte is green after the previous one under the default watermark."""
    rng, candidates = random.Random(0), np.arange(32, 127, dtype=np.uint32)
    text = [ord("a")]
    while len(text) < num_bytes:
        text.append(rng.choice(candidates[Watermark().greens(text[-1:], candidates)[0]].tolist()))
    return bytes(text).decode()


def detect(run: Running, **fields: Any) -> Any:
    stub: Any = watermark_pb2_grpc.WatermarkServiceStub(run.channel)
    return stub.DetectWatermark(watermark_pb2.DetectWatermarkRequest(**{"model": MODEL, "text": PLAIN} | fields))


async def test_detect_scores_watermarked_text_higher_than_plain_text() -> None:
    """A text of green tokens scores high, plain English does not; the four numbers are consistent."""
    async with running() as run:
        green = await detect(run, text=green_text(150))
        plain = await detect(run)
    assert green.z_score > 4
    assert green.green_fraction == 1
    assert 100 < green.num_tokens < 150
    assert green.p_value < 1e-4
    assert abs(plain.z_score) < 3
    assert plain.p_value == pytest.approx(0.5, abs=0.5)
    assert 0 < plain.green_fraction < 0.5


@pytest.mark.parametrize(
    ("fields", "code", "names"),
    [
        ({"text": ""}, grpc.StatusCode.INVALID_ARGUMENT, "text"),
        ({"text": "a"}, grpc.StatusCode.INVALID_ARGUMENT, "text"),
        ({"text": "a" * 262_145}, grpc.StatusCode.INVALID_ARGUMENT, "text"),
        ({"model": ""}, grpc.StatusCode.INVALID_ARGUMENT, "model"),
        ({"model": "nobody"}, grpc.StatusCode.NOT_FOUND, None),
    ],
    ids=["empty", "one token", "too long", "no model", "unknown model"],
)
async def test_detect_rejects_bad_input(fields: dict[str, str], code: grpc.StatusCode, names: str | None) -> None:
    """Exceeded limits and unknown models are rejected with the field's name."""
    async with running() as run:
        rejection = await rejection_of(detect(run, **fields))
    assert rejection.code is code
    if names is not None:
        assert rejection.fields[0][0] == names
    else:
        assert rejection.info.metadata["model"] == "nobody"


async def command(*arguments: str, text: str = "") -> tuple[int | None, str, str]:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "service.commands.detect_watermark", *arguments,
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
        env={"PYTHONPATH": ":".join(sys.path)},
    )  # fmt: skip
    out, err = await process.communicate(text.encode())
    return process.returncode, out.decode(), err.decode()


@pytest.mark.slow
async def test_command_prints_the_score(tmp_path: Path) -> None:
    """Text from standard input or a file gives one line; an error is one line with exit code 1."""
    file = tmp_path / "text"
    file.write_text(green_text(150))
    async with running() as run:
        to_server = ("--target", f"127.0.0.1:{run.port}", "--model", MODEL)
        from_input = await command(*to_server, text=green_text(150))
        from_file = await command(*to_server, str(file))
        short = await command(*to_server, text="a")
        missing = await command(*to_server, str(tmp_path / "nowhere"))
    assert from_input == from_file
    code, out, _ = from_input
    assert code == 0
    assert re.fullmatch(r"z-score \d+\.\d\d, p-value \S+: 100\.0% of 1[34]\d scored tokens are green\n", out)
    assert (short[0], short[1]) == (1, "")
    assert short[2] == "sluice-watermark: INVALID_ARGUMENT: text: must have at least 2 tokens, not 1\n"
    assert missing[0] == 1
    assert "nowhere" in missing[2]
