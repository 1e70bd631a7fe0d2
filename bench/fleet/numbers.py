"""The figures of an outcome."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bench.fleet.simulated.job import Job
from bench.fleet.simulated.simulation import Outcome


@dataclass(frozen=True)
class Target:
    """The latency limits of a good request, in seconds."""

    first_token_s: float = 1.0
    gap_s: float = 0.05

    def is_met(self, job: Job) -> bool:
        """Return True if the job's first token and the later tokens were in time."""
        return not job.refused and job.first_token - job.arrived <= self.first_token_s and job.gap_s <= self.gap_s


def numbers(outcome: Outcome, target: Target, *, since: float = 0.0, request_s: float = 0.0) -> dict[str, float]:
    """Return the figures of the requests that arrived from `since` on, when caches are no longer empty.

    `request_s` is added to the time of first tokens, for the part of a request outside of steps.
    """
    jobs = [job for job in outcome.jobs if job.arrived >= since]
    answered = [job for job in jobs if not job.refused]
    waits = np.array([job.first_token - job.arrived + request_s for job in answered] or [np.nan])
    gaps = np.array([job.gap_s for job in answered if job.answer > 1] or [np.nan])
    num_good = sum(target.is_met(job) for job in jobs)
    duration = max((job.arrived for job in jobs), default=since) - since or 1.0
    busy = np.array([each.busy_s for each in outcome.replicas])
    calls = np.array([each.num_jobs for each in outcome.replicas], dtype=float)
    return {
        "requests": len(jobs),
        "good": num_good / max(len(jobs), 1),
        "goodput_per_s": num_good / duration,
        "refused": (len(jobs) - len(answered)) / max(len(jobs), 1),
        "prefix_hits": sum(job.cached for job in answered) / max(sum(job.prompt for job in answered), 1),
        "later_turn_hits": _hits([job for job in answered if job.turn]),
        "first_token_p50_s": float(np.quantile(waits, 0.5)),
        "first_token_p95_s": float(np.quantile(waits, 0.95)),
        "gap_p50_s": float(np.quantile(gaps, 0.5)),
        "gap_p95_s": float(np.quantile(gaps, 0.95)),
        "busiest_over_mean": float(busy.max() / busy.mean()) if busy.any() else 1.0,
        "most_calls_over_mean": float(calls.max() / calls.mean()) if calls.any() else 1.0,
        "busy": float(busy.sum() / outcome.replica_s) if outcome.replica_s else 0.0,
        "replica_hours": outcome.replica_s / 3600,
        "broken": sum(job.num_broken > 0 for job in jobs),
    }


def _hits(jobs: list[Job]) -> float:
    return sum(job.cached for job in jobs) / max(sum(job.prompt for job in jobs), 1)
