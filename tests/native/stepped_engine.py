"""An engine's core over the native backend that a test steps, with its answers."""

from __future__ import annotations

import queue
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from service.engine.core.generator_core import GeneratorCore
from service.engine.interface.config import EngineConfig
from service.engine.interface.messages import Add, Check, Compile, Report
from service.engine.loading.generator import load_generator
from service.generation.outputs.output import GenerationOutput
from service.generation.requests.request import GenerationRequest
from service.generation.stats import EngineStats
from tests.waiting import GUARD_S

DEMO_FOLDER = Path(__file__).parents[2] / "demo" / "model"
SAID = ("token_ids", "text_ends", "logprobs", "prompt_logprobs")


class Engine:
    """An engine's core, stepped manually; it collects reports in `outputs`.

    The numbers of drafts and of tokens in a step follow from times: with a clock of its own, steps are always the same.
    """

    def __init__(
        self, dtype: Any, folder: Path = DEMO_FOLDER, clock: Callable[[], float] = time.monotonic, **sizes: Any
    ) -> None:
        config = EngineConfig(backend="native", max_queue_wait_s=600.0, **sizes)
        made = load_generator(
            str(folder), config, compute_dtype=dtype, device="cpu", cache_share=1, control_token_ids={}, clock=clock
        )
        self._clock = clock
        assert isinstance(made.core, GeneratorCore)
        self.core = made.core
        self.outputs: dict[int, list[GenerationOutput]] = {}
        self.stats: EngineStats | None = None
        self._reports: queue.Queue[Report] = queue.Queue()
        self.core.open(self._reports.put)

    def add(self, serial: int, request: GenerationRequest) -> None:
        constraint_serial = None
        if request.constraint:
            constraint_serial = 1000 + serial
            self.core.receive(Compile(constraint_serial, request.constraint))
            while not (report := self._reports.get(timeout=GUARD_S)).outputs:
                assert not report.errors
        self.outputs[serial] = []
        self.core.receive(Add(serial, request, self._clock(), constraint_serial=constraint_serial))

    def step(self) -> None:
        self.core.step()
        report = self.core.report()
        assert not report.errors
        self.stats = report.stats[-1]
        for serial, output in report.outputs:
            assert isinstance(output, GenerationOutput)
            self.outputs[serial].append(output)

    def check(self) -> None:
        """Check the block pool's invariants."""
        self.core.receive(Check(0))
        assert not self._reports.get(timeout=GUARD_S).errors

    def answers(self, serial: int) -> dict[int, dict[str, Any]]:
        """Return the collected output of each choice of a request."""
        by_choice: dict[int, dict[str, Any]] = {}
        for output in self.outputs[serial]:
            said = by_choice.setdefault(output.choice_index, {"text": "", "end": None} | {name: [] for name in SAID})
            for name in SAID:
                said[name] += getattr(output, name)
            said["text"] += output.text
            said["end"] = output.finish_reason
        return by_choice
