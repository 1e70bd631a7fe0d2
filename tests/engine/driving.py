"""Run a core until it is idle, and collect its reports."""

from __future__ import annotations

from service.engine.core.engine_core import EngineCore
from service.engine.core.sequences.sequence import SequenceGroup
from service.generation.errors import EngineError
from service.generation.outputs.output import GenerationOutput


def drive(core: EngineCore, groups: list[SequenceGroup]) -> tuple[list[list[GenerationOutput]], list[EngineError]]:
    """Run the groups together. Return the outputs of each, and all errors.

    The core must be idle and consistent afterwards.
    """
    outputs: dict[int, list[GenerationOutput]] = {group.serial: [] for group in groups}
    errors: list[EngineError] = []
    for group in groups:
        core.add(group)
    while core.has_work:
        core.step()
        report = core.report()
        for serial, output in report.outputs:
            assert isinstance(output, GenerationOutput)
            outputs[serial].append(output)
        errors += [error for _, error in report.errors]
    core.check()
    return list(outputs.values()), errors
