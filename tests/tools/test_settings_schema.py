"""The JSON Schemas of the settings accept the documented files, and reject what a start would reject."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator

from gateway.settings.config import Settings as GatewaySettings
from process.settings.json_schema import json_schema
from service.settings.config import Settings as ServiceSettings
from tests.waiting import GUARD_S
from tools.docs.settings_reference import SCHEMAS, schema_text

ROOT = Path(__file__).resolve().parents[2]
SERVICE = Draft202012Validator(json_schema(ServiceSettings))
GATEWAY = Draft202012Validator(json_schema(GatewaySettings))


def documented_files() -> Iterator[Any]:
    """Yield the service's settings in the documentation: blocks whose names are all settings."""
    for page in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))):
        for index, block in enumerate(re.findall(r"^```yaml\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL)):
            content = next(iter(yaml.safe_load_all(block)))
            if isinstance(content, dict) and content and content.keys() <= ServiceSettings.model_fields.keys():
                yield pytest.param(content, id=f"{page.relative_to(ROOT)}-{index}")


def deployed_files() -> Iterator[Any]:
    """Yield the service's settings in `deploy/`."""
    for index, pool in enumerate(yaml.safe_load((ROOT / "deploy" / "ray" / "deployment.yaml").read_text())["pools"]):
        yield pytest.param(pool["settings"], id=f"ray-{index}")


FILES = [*documented_files(), *deployed_files()]


@pytest.mark.parametrize(("path", "kind"), SCHEMAS.items(), ids=lambda value: getattr(value, "name", None))
def test_schema_is_up_to_date(path: Path, kind: type[ServiceSettings | GatewaySettings]) -> None:
    """The file equals the output of `python -m tools.docs.settings_reference`, and is a valid schema."""
    assert path.read_text() == schema_text(kind)
    Draft202012Validator.check_schema(json_schema(kind))


def test_documentation_has_settings_files() -> None:
    """The search finds documented files."""
    assert len(FILES) > 6


@pytest.mark.parametrize("content", FILES)
def test_schema_accepts_the_documented_files(content: Any) -> None:
    assert [error.message for error in SERVICE.iter_errors(content)] == []


@pytest.mark.parametrize(
    ("content", "path"),
    [
        ({"prot": 1}, []),
        ({"port": 70000}, ["port"]),
        ({"config": "other.yaml"}, []),
        ({"engine": {"block_sise": 16}}, ["engine"]),
        ({"engine": {"block_size": 0}}, ["engine", "block_size"]),
        ({"engine": {"device_memory": 1.5}}, ["engine", "device_memory"]),
        ({"engine": {"watermark": {"gamma": 1}}}, ["engine", "watermark", "gamma"]),
        ({"engine": {"worker": "fiber"}}, ["engine", "worker"]),
        ({"models": [{"path": "/a"}]}, ["models", 0]),
        ({"quota": {"limits_by_model": {"a": {"max_n": 0}}}}, ["quota", "limits_by_model", "a", "max_n"]),
        ({"drain_delay_s": -1}, ["drain_delay_s"]),
        ({"generation_config": "perhaps"}, ["generation_config"]),
    ],
)
def test_schema_rejects_unknown_names_and_values_out_of_range(content: Any, path: list[str | int]) -> None:
    """The error is at the path of the setting, or of the mapping with the unknown or missing name."""
    (error,) = SERVICE.iter_errors(content)
    assert list(error.absolute_path) == path


def test_gateways_schema_rejects_the_services_names() -> None:
    """Each process has its own schema, which rejects the other's names."""
    assert not GATEWAY.is_valid({"models": []})
    assert GATEWAY.is_valid({"target": "[::1]:50051", "auth": {"allow_anonymous": True}, "admin_port": None})


def test_schema_has_units_and_marks_reloaded_settings() -> None:
    """Units and reloads are schema extensions, which validators ignore."""
    properties = json_schema(ServiceSettings)["properties"]
    assert properties["drain_delay_s"]["x-unit"] == "seconds"
    assert [name for name, each in properties.items() if each.get("x-reload")] == ["log_level", "endpoints"]


@pytest.mark.slow
@pytest.mark.parametrize(("flags", "kind"), [([], ServiceSettings), (["--gateway"], GatewaySettings)])
def test_command_prints_the_schema(flags: list[str], kind: type[ServiceSettings | GatewaySettings]) -> None:
    """`sluice config --json-schema` prints the schema of the installed version."""
    command = [sys.executable, "-m", "cli", "config", "--json-schema", *flags]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True, timeout=GUARD_S)
    assert done.stdout == schema_text(kind)
