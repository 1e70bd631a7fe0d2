"""The list of the product's variables matches its processes."""

from __future__ import annotations

import pytest
from pydantic_settings import BaseSettings

from gateway.settings.config import Settings as GatewaySettings
from process.settings.environment import PREFIXES, RUNNER
from process.settings.names import paths
from process.settings.process_settings import ProcessSettings, read_settings
from runner.settings import Settings as RunnerSettings
from service.settings.config import Settings as ServiceSettings

PROCESSES = (ServiceSettings, GatewaySettings)


def variables(kind: type[BaseSettings]) -> set[str]:
    """Return every variable that the class reads."""
    prefix = kind.model_config["env_prefix"]
    return {prefix + "__".join(path).upper() for path in paths(kind)}


def test_runners_variables_are_known() -> None:
    """The list has exactly the runner's variables."""
    assert variables(RunnerSettings) == RUNNER


def test_prefixes_equal_those_of_the_settings_classes() -> None:
    """The prefixes are those of the settings classes."""
    assert tuple(kind.model_config["env_prefix"] for kind in PROCESSES) == PREFIXES


@pytest.mark.parametrize("kind", PROCESSES)
def test_runners_variables_are_accepted_by_each_process(kind: type[ProcessSettings]) -> None:
    """The runner's variables with a process's prefix are settings of that process."""
    own = {name for name in RUNNER if name.startswith(kind.model_config["env_prefix"])}
    assert own
    assert own <= variables(kind)


@pytest.mark.parametrize(("kind", "sibling"), [PROCESSES, PROCESSES[::-1]])
def test_siblings_variables_are_accepted(
    kind: type[ProcessSettings], sibling: type[ProcessSettings], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Variables of the other process, with any value, change nothing."""
    before = read_settings(kind, [])
    for name in variables(sibling):
        monkeypatch.setenv(name, "anything")
    assert read_settings(kind, []) == before
