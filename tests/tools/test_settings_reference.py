"""docs/settings.md has every setting as it is now."""

from __future__ import annotations

from gateway.config import Settings as GatewaySettings
from process.settings.environment import COMMAND, RUNNER
from process.settings.names import paths
from runner.settings import Settings as RunnerSettings
from service.settings.config import Settings as ServiceSettings
from tools.docs.settings_reference import PAGE, reference, undescribed


def test_the_page_is_up_to_date() -> None:
    """It is what `python -m tools.docs.settings_reference` writes now."""
    assert PAGE.read_text() == reference()


def test_every_variable_stands_there() -> None:
    """Those that the processes accept, each in a row of its own or as part of those of its group."""
    text = PAGE.read_text()
    for kind in (ServiceSettings, GatewaySettings, RunnerSettings):
        for path in paths(kind):
            variable = f"`{kind.model_config['env_prefix']}{'__'.join(path).upper()}"
            assert variable in text, variable
    assert [name for name in (*RUNNER, *COMMAND) if f"`{name}`" not in text] == []


def test_every_setting_says_what_it_is() -> None:
    """Also the keys of a model, an endpoint and a caller's limits, and the engine's sizes."""
    assert undescribed() == []
