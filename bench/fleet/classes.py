"""The scenario of service classes: one overloaded replica, by the order in which it serves."""

from __future__ import annotations

from collections import abc

from bench.fleet.simulated.service_classes import ClassJob, ClassReplica, Order, costs_s, jobs_of, most_good
from bench.fleet.simulated.step_model import StepModel

ORDERS: tuple[Order, ...] = ("service levels", "first come, first served", "earliest deadline first")
_PARTS = (1.0, 0.9, 0.85, 0.8, 0.7)  # of the requests that a clairvoyant scheduler tries to serve
_NUM_KEYS = 4
_DRAIN_S = 3.0  # after the last arrival
_MAX_SEQUENCES = 128


def class_rows(
    model: StepModel, seed: int, rates: abc.Iterable[float], duration_s: float = 20.0
) -> list[dict[str, str | float]]:
    """Return the good answers at each rate in requests per second, by order and for a clairvoyant scheduler.

    `late` are whole answers outside of the limits of their class. `bound` is an upper bound of the good answers for any
    scheduler. `fairness` is Jain's index of the good answers of four equal keys.
    """
    rows: list[dict[str, str | float]] = []
    for rate in rates:
        jobs = jobs_of(rate, duration_s, _NUM_KEYS, seed)
        bound = most_good(costs_s(jobs, model, _MAX_SEQUENCES).values(), duration_s + _DRAIN_S)
        clairvoyant = _clairvoyant(model, seed, rate, duration_s)
        for order in ORDERS:
            jobs = jobs_of(rate, duration_s, _NUM_KEYS, seed)
            good = _good(model, order, jobs, duration_s)
            names = sorted({job.key for job in jobs})
            by_key = [sum(job.key == name for job in good) for name in names]
            rows.append(
                {
                    "requests per second": rate,
                    "order": order,
                    "requests": float(len(jobs)),
                    "good": float(len(good)),
                    "late": float(sum(job.ended <= duration_s + _DRAIN_S for job in jobs) - len(good)),
                    "clairvoyant": float(clairvoyant),
                    "bound": bound,
                    "fairness": jain(by_key),
                    **{f"good {name}": float(sum(job.of.name == name for job in good)) for name in _names(jobs)},
                }
            )
    return rows


def jain(values: abc.Sequence[float]) -> float:
    """Return Jain's fairness index: 1 if all values are equal, 1 / n if only one isn't 0."""
    squares = sum(each * each for each in values)
    return sum(values) ** 2 / (len(values) * squares) if squares else 1.0


def _names(jobs: abc.Iterable[ClassJob]) -> list[str]:
    return sorted({job.of.name for job in jobs})


def _good(model: StepModel, order: Order, jobs: list[ClassJob], duration_s: float) -> list[ClassJob]:
    """Serve the jobs; return those with a good answer."""
    until = duration_s + _DRAIN_S
    ClassReplica(model, order, max_batch_sequences=_MAX_SEQUENCES).run_jobs(jobs, until)
    return [job for job in jobs if job.is_good(until)]


def _clairvoyant(model: StepModel, seed: int, rate: float, duration_s: float) -> int:
    """Return the most good answers if all arrivals and lengths are known, and the costliest requests are rejected."""
    most = 0
    for part in _PARTS:
        jobs = jobs_of(rate, duration_s, _NUM_KEYS, seed)
        costs = costs_s(jobs, model, _MAX_SEQUENCES)
        limit = sorted(costs.values())[round(part * len(jobs)) - 1]
        chosen = [job for job in jobs if costs[job] <= limit]
        most = max(most, len(_good(model, "clairvoyant", chosen, duration_s)))
    return most
