"""Comparison of three simulated and three real replicas under the same traffic: `python -m bench.fleet validate`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from bench.fleet.measured.real import run_real
from bench.fleet.numbers import Target, numbers
from bench.fleet.simulated.balancers import Balancer, LeastRequest, Maglev
from bench.fleet.simulated.replica import Replica, Sizes
from bench.fleet.simulated.simulation import Simulation
from bench.fleet.simulated.step_model import StepModel, StepTable
from bench.fleet.simulated.traffic import Source, Traffic

# An accelerator slow enough that the product's own time on two cores is negligible.
TABLE = StepTable(
    "paced",
    decode=((1, 0.040), (8, 0.048), (16, 0.060)),
    prefill=((1, 0.045), (128, 0.080), (512, 0.200), (1900, 0.650)),
    num_blocks=500,
)
SIZES = Sizes(max_batch_sequences=16, max_queue_wait_s=1000.0)
TARGET = Target(0.6, 0.075)
TRAFFIC = Traffic(
    conversations_per_s=0.9,
    duration_s=30.0,
    turns=3.0,
    think_s=4.0,
    question=60.0,
    answer=60.0,
    longest=330,
    system_prompts=8,
    system_prompt=500,
    hot_per_s=0.3,
    hot_prompt=800,
)
LOADS = (0.9, 2.5)
BOUNDED = "bounded maglev"
WAYS = ("least request", BOUNDED)
FIGURES = ("requests", "good", "prefix_hits", "later_turn_hits", "first_token_p50_s", "first_token_p95_s", "gap_p50_s")


@dataclass(frozen=True)
class Compared:
    """A figure of a simulated and a real run."""

    way: str
    load: float  # conversations per second
    name: str
    simulated: float
    real: float

    @property
    def difference(self) -> float:
        """The simulated figure's relative difference from the real one."""
        return self.simulated / self.real - 1 if self.real else 0.0


def validate(seed: int, ways: Sequence[str] = WAYS, loads: Sequence[float] = LOADS) -> list[Compared]:
    """Compare each figure by least request without affinity keys, and by bounded Maglev with them.

    Each balancer and load takes a minute. The simulation uses the step times that a client of one replica measured just
    before.
    """
    return [each for load in loads for way in ways for each in _compare(way, load, seed)]


def _compare(way: str, load: float, seed: int) -> list[Compared]:
    traffic = replace(TRAFFIC, conversations_per_s=load)
    balancer: Balancer = Maglev(1.5) if way == BOUNDED else LeastRequest(seed)
    table, real = run_real(TABLE, SIZES, 3, Source(traffic, seed), has_affinity=way == BOUNDED)
    model, measured = StepModel(table), numbers(real, TARGET)
    simulation = Simulation(lambda number: Replica(number, model, SIZES), balancer, 3)
    simulated = numbers(simulation.run(Source(traffic, seed)), TARGET, request_s=table.request_s)
    return [Compared(way, load, name, simulated[name], measured[name]) for name in FIGURES]
