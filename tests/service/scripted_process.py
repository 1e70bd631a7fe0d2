"""`python -m service` with a scripted model instead of weights, for the tests of the process.

The model repeats its path as text; with the prefix "die:", its engine fails at the fifth step.
"""

from service.__main__ import main
from service.engine.core.engine_core import SampledToken
from service.engine.core.step import Step
from service.engine.interface.port import StepObserver
from service.generation.errors import SequenceError
from service.registry.models import ServedModel
from service.settings.model_settings import ModelSettings
from tests.service.fakes import ENDLESS, ScriptedRunner, scripted_engine, served
from tests.service.plain_preparation import PlainPreparation


class DyingRunner(ScriptedRunner):
    """A runner that fails at its fifth step."""

    def run(self, step: Step) -> list[SampledToken | SequenceError | None]:
        if self.num_steps == 4:
            raise RuntimeError("no memory")
        return super().run(step)


async def load(settings: ModelSettings, observer: StepObserver) -> ServedModel:
    """Return the scripted model."""
    text = settings.path.removeprefix("die:")
    runner = (DyingRunner if settings.path.startswith("die:") else ScriptedRunner)(text, end=False)
    return served(settings.name, scripted_engine(runner, observer, **ENDLESS), PlainPreparation())


if __name__ == "__main__":
    main(load)
