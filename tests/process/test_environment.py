"""The list of the product's variables is that of its processes."""

from __future__ import annotations

import pytest
from pydantic_settings import BaseSettings

from gateway.config import Settings as GatewaySettings
from process.settings.environment import PREFIXES, RUNNER
from process.settings.names import paths
from process.settings.process_settings import ProcessSettings, read_settings
from runner.settings import Settings as RunnerSettings
from service.settings.config import Settings as ServiceSettings

PROCESSES = (ServiceSettings, GatewaySettings)


def variables(kind: type[BaseSettings]) -> set[str]:
    """Every variable that the class reads."""
    prefix = kind.model_config["env_prefix"]
    return {prefix + "__".join(path).upper() for path in paths(kind)}


def test_runners_variables_are_known() -> None:
    """Each of them, and none that it doesn't read."""
    assert variables(RunnerSettings) == RUNNER


def test_each_process_has_its_prefix() -> None:
    """The prefixes are those of the settings classes."""
    assert tuple(kind.model_config["env_prefix"] for kind in PROCESSES) == PREFIXES


@pytest.mark.parametrize("kind", PROCESSES)
def test_runners_variables_are_no_surprise_to_a_process(kind: type[ProcessSettings]) -> None:
    """Those with a process's own prefix are settings of that process."""
    own = {name for name in RUNNER if name.startswith(kind.model_config["env_prefix"])}
    assert own
    assert own <= variables(kind)


@pytest.mark.parametrize(("kind", "sibling"), [PROCESSES, PROCESSES[::-1]])
def test_siblings_variables_are_accepted(
    kind: type[ProcessSettings], sibling: type[ProcessSettings], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each of them, with any value, changes nothing."""
    before = read_settings(kind, [])
    for name in variables(sibling):
        monkeypatch.setenv(name, "anything")
    assert read_settings(kind, []) == before
