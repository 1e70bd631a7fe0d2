"""Sources of settings, their precedence, and errors about invalid ones."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import BaseModel, ConfigDict, Field
from pydantic.dataclasses import dataclass
from pydantic_settings import SettingsConfigDict

from process.errors import ConfigError
from process.settings.process_settings import ProcessSettings, read_settings
from process.settings.quantities import Port


@dataclass(frozen=True, config=ConfigDict(extra="forbid"))
class Lamp:
    """A nested class of settings."""

    colour: str = "white"
    watts: int = 5


class Room(BaseModel):
    """An item of a list."""

    model_config = ConfigDict(extra="forbid")

    name: str
    lamp: Lamp | None = None


class House(ProcessSettings):
    """Settings of every shape."""

    model_config = SettingsConfigDict(env_prefix="SLUICE_SERVICE_", cli_prog_name="house")

    port: Port = 1
    street: str = "here"
    door_count: int = 1
    is_open: bool = False
    lamp: Lamp = Field(Lamp())
    rooms: list[Room] = Field([])
    keys: dict[str, str] = Field({})


@pytest.fixture(autouse=True)
def _bare_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OTEL_EXPORTER_OTLP_ENDPOINT", raising=False)


def problem(*flags: str) -> str:
    """Return the one line about invalid settings."""
    with pytest.raises(ConfigError) as caught:
        read_settings(House, flags)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize(
    ("name", "text"),
    [("a.yaml", "port: 2\nstreet: file\nlamp: {watts: 7}"), ("a.toml", 'port = 2\nstreet = "file"\nlamp = {watts=7}')],
)
def test_flags_override_variables_and_variables_the_file(
    name: str, text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Precedence applies per setting, also in nested classes; YAML and TOML have the same names."""
    file = tmp_path / name
    file.write_text(text)
    monkeypatch.setenv("SLUICE_SERVICE_CONFIG", str(file))
    monkeypatch.setenv("SLUICE_SERVICE_PORT", "3")
    monkeypatch.setenv("SLUICE_SERVICE_LAMP__COLOUR", "red")
    house = read_settings(House, ["--port=4"])
    assert (house.port, house.street, house.lamp, house.door_count) == (4, "file", Lamp("red", 7), 1)


def test_otel_endpoint_variable_has_the_lowest_precedence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The variable applies only if no other source names a collector, and not if it is empty."""
    file = tmp_path / "a.yaml"
    file.write_text("otlp_endpoint: file:1")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "standard:1")
    assert read_settings(House, []).otlp_endpoint == "standard:1"
    assert read_settings(House, [f"--config={file}"]).otlp_endpoint == "file:1"
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "")
    assert read_settings(House, []).otlp_endpoint is None


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("prot: 1", "prot: unknown setting; did you mean port?"),
        ("nonsense: 1", "nonsense: unknown setting"),
        ("1: 2", "1: unknown setting"),
        ("lamp: {wats: 1}", "lamp.wats: unknown setting; did you mean watts?"),
        ("lamp: {1: 2}", "lamp.1: unknown setting"),
        ("rooms: [{name: a}, {nam: b}]", "rooms.1.nam: unknown setting; did you mean name?"),
        ("rooms: [{name: a, lamp: {color: red}}]", "rooms.0.lamp.color: unknown setting; did you mean colour?"),
        ("lamp: 3", "lamp: must be a mapping of settings by name"),
        ("port: 70000", "port: Input should be less than or equal to 65535"),
    ],
)
def test_unknown_key_in_a_file_is_reported_by_path(text: str, line: str, tmp_path: Path) -> None:
    """An unknown key at any depth is reported by its path, with the closest known name if any."""
    file = tmp_path / "a.yaml"
    file.write_text(text)
    assert problem(f"--config={file}") == line


def test_all_problems_of_a_file_are_reported(tmp_path: Path) -> None:
    """Unknown names come first, and a missing name explained by a misspelt one is not reported."""
    file = tmp_path / "a.yaml"
    file.write_text("port: 70000\nlamp: {wats: 1}\nrooms: [{nam: a}, {name: b, lamp: {watts: many}}]\nnonsense: 1")
    with pytest.raises(ConfigError) as caught:
        read_settings(House, [f"--config={file}"])
    assert set(caught.value.problems[:3]) == {
        "lamp.wats: unknown setting; did you mean watts?",
        "rooms.0.nam: unknown setting; did you mean name?",
        "nonsense: unknown setting",
    }
    assert caught.value.problems[3:] == (
        "port: Input should be less than or equal to 65535",
        "rooms.1.lamp.watts: Input should be a valid integer, unable to parse string as an integer",
    )


def test_all_unknown_variables_are_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every unknown variable has its own line."""
    monkeypatch.setenv("SLUICE_SERVICE_PROT", "1")
    monkeypatch.setenv("SLUICE_SERVICE_NOPE", "1")
    with pytest.raises(ConfigError) as caught:
        read_settings(House, [])
    assert caught.value.problems == (
        "SLUICE_SERVICE_NOPE: unknown variable",
        "SLUICE_SERVICE_PROT: unknown variable; did you mean SLUICE_SERVICE_PORT?",
    )


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("- port", "must be a mapping of settings by name"),
        ("a: [", "expected the node content, but found '<stream end>' (at line 1, column 5)"),
        ("config: b.yaml", "a file can't name another file"),
    ],
)
def test_error_about_a_file_has_its_path(text: str, reason: str, tmp_path: Path) -> None:
    """The line has the file's path and the problem."""
    file = tmp_path / "a.yaml"
    file.write_text(text)
    assert problem(f"--config={file}") == f"config: {file}: {reason}"


def test_file_of_comments_is_valid(tmp_path: Path) -> None:
    """A file of comments is valid."""
    file = tmp_path / "a.yaml"
    file.write_text("# port: 2\n")
    assert read_settings(House, [f"--config={file}"]).port == 1


@pytest.mark.parametrize(
    ("flags", "line"),
    [
        (["--prot=2"], "--prot: unknown flag; did you mean --port?"),
        (["--nonsense", "2"], "--nonsense: unknown flag"),
        (["--lamp.wats", "2"], "--lamp.wats: unknown flag; did you mean --lamp.watts?"),
        (["--door_count=2"], "--door_count: unknown flag; did you mean --door-count?"),
        (["--stree=x"], "--stree: unknown flag; did you mean --street?"),  # no flag may be shortened
        (["-p", "2"], "-p: unknown flag"),
        (["port"], "port: unexpected argument"),
        (["--port"], "--port: expected one argument"),
        (["--rooms=[{"], 'rooms: Missing end delimiter "]"'),
        (['--rooms=[{"name": "a", "lamb": {}}]'], "rooms.0.lamb: unknown setting; did you mean lamp?"),
        (['--lamp={"wats": 1}'], "lamp.wats: unknown setting; did you mean watts?"),
    ],
)
def test_invalid_flag_is_reported_as_written(flags: list[str], line: str) -> None:
    """Flags are reported as written, and keys of their JSON by their path."""
    assert problem(*flags) == line


def test_help_lists_every_setting(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """--help exits with code 0, even with an invalid environment."""
    monkeypatch.setenv("SLUICE_SERVICE_NOPE", "1")
    with pytest.raises(SystemExit) as caught:
        read_settings(House, ["--help"])
    assert caught.value.code == 0
    text = capsys.readouterr().out
    for flag in ("--config", "--log-level", "--otlp-endpoint", "--port", "--lamp.watts", "--no-is-open", "--rooms"):
        assert flag in text


@pytest.mark.parametrize(
    ("variable", "line"),
    [
        ("SLUICE_SERVICE_PROT", "unknown variable; did you mean SLUICE_SERVICE_PORT?"),
        ("SLUICE_SERVICE_NOPE", "unknown variable"),
        ("SLUICE_SERVICE_", "unknown variable"),
        ("sluice_service_prot", "unknown variable; did you mean SLUICE_SERVICE_PORT?"),
        ("SLUICE_SERVICE_LAMP__WATS", "unknown variable; did you mean SLUICE_SERVICE_LAMP__WATTS?"),
        ("SLUICE_SERVICE_LAMP_WATTS", "unknown variable; did you mean SLUICE_SERVICE_LAMP__WATTS?"),
        ("SLUICE_SERVICE_PORT__DEEP", "unknown variable"),
        ("SLUICE_SERVICE_ROOMS__0__NAME", "unknown variable"),
        ("SLUICE_SERVCE_DOOR_COUNT", "unknown variable; did you mean SLUICE_SERVICE_DOOR_COUNT?"),
        ("SLUICE_GATEWY_TARGET", "unknown variable; did you mean SLUICE_GATEWAY_TARGET?"),
        ("SLUICE_ENVOY_PROT", "unknown variable; did you mean SLUICE_ENVOY_PORT?"),
        ("SLUICE_PORT", "unknown variable"),
        ("SLUICE_", "unknown variable"),
    ],
)
def test_unknown_variable_is_reported_as_written(variable: str, line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A variable is reported as written, with the closest known name if any."""
    monkeypatch.setenv(variable, "1")
    assert problem() == f"{variable}: {line}"


@pytest.mark.parametrize(
    "variable", ["SLUICE_GATEWAY_WHATEVER", "SLUICE_ENVOY_PORT", "SLUICE", "SLUICEBOX_PORT", "OTHER_SLUICE_PORT"]
)
def test_unrelated_variables_are_ignored(variable: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The other process's variables and unrelated ones are ignored."""
    monkeypatch.setenv(variable, "1")
    assert read_settings(House, []).port == 1


def test_variable_can_set_a_key_of_a_mapping(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keys of a mapping are the operator's choice."""
    monkeypatch.setenv("SLUICE_SERVICE_KEYS__front", "iron")
    assert read_settings(House, []).keys == {"front": "iron"}


def test_error_about_a_variables_json_has_the_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    """The line starts with the setting's name."""
    monkeypatch.setenv("SLUICE_SERVICE_ROOMS", "[{")
    assert problem().startswith("rooms: invalid JSON in the environment: ")
