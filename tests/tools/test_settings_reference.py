"""docs/settings.md documents every current setting."""

from __future__ import annotations

from gateway.settings.config import Settings as GatewaySettings
from process.settings.environment import COMMAND, RUNNER
from process.settings.names import paths
from runner.settings import Settings as RunnerSettings
from service.settings.config import Settings as ServiceSettings
from tools.docs.settings_reference import PAGE, reference, undescribed


def test_the_page_is_up_to_date() -> None:
    """The page equals the output of `python -m tools.docs.settings_reference`."""
    assert PAGE.read_text() == reference()


def test_every_variable_is_documented() -> None:
    """Each variable that a process accepts has a row, or is covered by the row of its group."""
    text = PAGE.read_text()
    for kind in (ServiceSettings, GatewaySettings, RunnerSettings):
        for path in paths(kind):
            variable = f"`{kind.model_config['env_prefix']}{'__'.join(path).upper()}"
            assert variable in text, variable
    assert [name for name in (*RUNNER, *COMMAND) if f"`{name}`" not in text] == []


def test_every_setting_has_a_description() -> None:
    """Every setting is described, including the keys of models, endpoints, limits and the engine's sizes."""
    assert undescribed() == []
