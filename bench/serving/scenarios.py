"""The scenarios: the requests to a server, and the figures computed from its answers."""

from __future__ import annotations

import random
import statistics
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise, product
from typing import Any, Protocol

from bench import shapes
from bench.recurrent_shapes import RECURRENT_CONFIGS
from bench.serving.requests import Load

Numbers = dict[str, float]
Case = dict[str, float]
MOST_TOKENS = 1 << 18  # of all prompts of a case
LEAST_S = 2.0  # minimum duration of a measurement; short waves are repeated
QUESTION_TOKENS = 24
LENGTHS = (32, 128, 512)  # prompt lengths of the scenario `arrivals`
SCHEMA: dict[str, Any] = {
    "type": "array", "minItems": 8, "maxItems": 8,
    "items": {
        "type": "object",
        "properties": {
            "quantity": {"enum": [1, 2, 3]}, "availability": {"type": "boolean"}, "colour": {"enum": ["red", "green"]},
        },
        "required": ["quantity", "availability", "colour"], "additionalProperties": False,
    },
}  # fmt: skip


@dataclass(frozen=True)
class Size:
    """Parameters for a model: tokens per answer, requests per second, and the latency limits in seconds."""

    answer: int
    rates: tuple[float, ...]
    arrivals_s: float
    first_token_s: float
    gap_s: float


SIZES = {"5m": Size(128, (8, 12, 16, 20), 10, 0.25, 0.025), "0.5b": Size(32, (1, 2, 3), 20, 2.0, 0.15)}
SIZES["demo"] = SIZES["5m"]
SIZES |= dict.fromkeys(shapes.FAMILIES, Size(24, (1, 2, 3), 20, 2.0, 0.15))
SIZES |= dict.fromkeys(RECURRENT_CONFIGS, SIZES["0.5b"])
SIZES["8b"] = SIZES["32b"] = Size(128, (4, 8, 16), 20, 1.0, 0.05)


def at_once(load: Load, size: Size, case: Case) -> Numbers:
    """Send concurrent chats, in waves after a short warm-up; the figures are medians over the waves."""
    streams = int(case["streams"])
    load.send([load.request(load.prompt(32), 8) for _ in range(streams)])
    waves: list[Numbers] = []
    taken = 0.0
    while taken < LEAST_S:
        prompts = [load.prompt(int(case["prompt"])) for _ in range(streams)]
        answers = load.send([load.request(prompt, size.answer) for prompt in prompts])
        waves.append(of_wave(answers))
        taken += max(answer["received"][-1] for answer in answers)
    return {name: statistics.median(wave[name] for wave in waves) for name in waves[0]}


def arrivals(load: Load, size: Size, case: Case) -> Numbers:
    """Send chats with prompts of several lengths at random times, independent of the server's progress.

    A rejected chat is not good; the times are those of the other chats.
    """
    draw = random.Random(load.seed)
    moments: list[float] = []
    while not moments or moments[-1] < size.arrivals_s:
        moments.append((moments[-1] if moments else 0.0) + draw.expovariate(case["rate"]))
    requests = [load.request(load.prompt(draw.choice(LENGTHS)), size.answer, at) for at in moments]
    answers = [answer for answer in load.send(requests, may_refuse=True) if "error" not in answer]
    firsts = [answer["received"][0] - answer["sent"] for answer in answers]
    late_gaps = [late_of(gaps_of(answer)) for answer in answers]
    num_good = sum(
        first <= size.first_token_s and gap <= size.gap_s for first, gap in zip(firsts, late_gaps, strict=True)
    )
    return {
        "good": num_good / len(moments),
        "refused": 1 - len(answers) / len(moments),
        "goodput_per_s": num_good / moments[-1],
        "first_token_s": statistics.median(firsts or [0.0]),
        "first_token_p95_s": late_of(sorted(firsts)),
        "gap_s": statistics.median([gap for answer in answers for gap in gaps_of(answer)] or [0.0]),
        "gap_p95_s": statistics.median(late_gaps or [0.0]),
    }


def prefix(load: Load, _size: Size, case: Case) -> Numbers:
    """Send sequential chats with a long shared prefix; measure the first token of the first, second and third chat."""
    new: list[float] = []
    cached: list[float] = []
    again: list[float] = []
    for _ in range(4):
        beginning = load.prompt(int(case["shared"]))
        for times in (new, cached, again):
            answer = load.send([load.request(beginning + load.words(QUESTION_TOKENS), 4)])[0]
            times.append(answer["received"][0] - answer["sent"])
    times_of = {"new_s": new, "cached_s": cached, "again_s": again}
    return {name: statistics.median(times) for name, times in times_of.items()}


def schema(load: Load, _size: Size, case: Case) -> Numbers:
    """Send concurrent chats whose answers follow a JSON schema."""
    form = {"type": "json_schema", "json_schema": {"name": "stock", "schema": SCHEMA, "strict": True}}
    rates: list[float] = []
    tokens: list[float] = []
    for number in range(4):
        requests = [load.request(f"Answer in JSON. {load.words(8)}", 600) for _ in range(int(case["streams"]))]
        for request in requests:
            request["body"].pop("ignore_eos", None)  # the answer ends by its schema
            request["body"]["response_format"] = form
        answers = load.send(requests)
        if number > 0:  # the first one compiles the schema
            rates.append(len(answers) / max(answer["received"][-1] for answer in answers))
            tokens += [answer["tokens"] for answer in answers]
    return {"answers_per_s": statistics.median(rates), "tokens": statistics.median(tokens)}


def start(load: Load, _size: Size, _case: Case) -> Numbers:
    """Return the times from the server's only start until it was ready, and until its first answer had ended."""
    return dict(load.server.seconds)


def memory(load: Load, _size: Size, _case: Case) -> Numbers:
    """Measure the memory of the server's processes after the answers so far: now, the sum of peaks, on the device."""
    server = load.server
    return {
        "pss_mb": server.memory() / 1e6,
        "peak_rss_mb": server.peak_memory() / 1e6,
        "device_mb": server.device_memory() / 1e6,
    }


class Options(Protocol):
    """The options that choose the cases."""

    prompts: list[int]
    streams: list[int]
    rates: list[float]
    shared: list[int]


@dataclass(frozen=True)
class Scenario:
    """A scenario's measurement, its cases, and the numbers that are printed; the first number is compared."""

    measure: Callable[[Load, Size, Case], Numbers]
    cases: Callable[[Size, Options], Iterator[Case]]
    numbers: tuple[str, ...]
    slots: int | None = None  # slots of a server that is started for a number of streams, unless the case has one


def _grid(_size: Size, options: Options) -> Iterator[Case]:
    pairs = product(options.prompts, options.streams)
    return ({"prompt": prompt, "streams": number} for prompt, number in pairs if prompt * number <= MOST_TOKENS)


def _streams(_size: Size, options: Options) -> Iterator[Case]:
    return ({"streams": number} for number in options.streams)


def _rates(size: Size, options: Options) -> Iterator[Case]:
    return ({"rate": rate} for rate in options.rates or size.rates)


def _shared(_size: Size, options: Options) -> Iterator[Case]:
    return ({"shared": number} for number in options.shared)


def _once(_size: Size, _options: Options) -> Iterator[Case]:
    return iter(({},))


SCENARIOS = {
    "chats": Scenario(at_once, _grid, ("tokens_per_s", "first_token_s", "gap_s", "gap_p95_s")),
    "arrivals": Scenario(
        arrivals,
        _rates,
        ("goodput_per_s", "good", "refused", "first_token_s", "first_token_p95_s", "gap_s", "gap_p95_s"),
        64,
    ),
    "prefix": Scenario(prefix, _shared, ("cached_s", "again_s", "new_s"), 4),
    "schema": Scenario(schema, _streams, ("answers_per_s", "tokens")),
    "start": Scenario(start, _once, ("answered_s", "ready_s"), 16),
    "memory": Scenario(memory, _once, ("pss_mb", "peak_rss_mb", "device_mb"), 16),
}


def of_wave(answers: list[dict[str, Any]]) -> Numbers:
    """Return tokens per second from the first request to the last token, and times as medians over streams and gaps."""
    began = min(answer["sent"] for answer in answers)
    ended = max(answer["received"][-1] for answer in answers)
    gaps = [gap for answer in answers for gap in gaps_of(answer)]
    return {
        "tokens_per_s": sum(answer["tokens"] for answer in answers) / (ended - began),
        "first_token_s": statistics.median(answer["received"][0] - answer["sent"] for answer in answers),
        "gap_s": statistics.median(gaps or [0.0]),
        "gap_p95_s": late_of(gaps),
        "prompt_tokens": statistics.median(answer["prompt_tokens"] for answer in answers),
    }


def gaps_of(answer: dict[str, Any]) -> list[float]:
    """Return the seconds between the texts of one answer; empty if all were received at once."""
    return [after - before for before, after in pairwise(answer["received"])]


def late_of(times: list[float]) -> float:
    """Return the 95th percentile of times: 0 if there are none, and the maximum if there are few."""
    return statistics.quantiles([*times, times[-1]], n=20, method="inclusive")[-1] if times else 0.0
