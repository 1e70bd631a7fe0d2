"""The chart's default values are valid by its own schema."""

import json

import jsonschema
import yaml

from tests.deploy.image_build import ROOT

CHART = ROOT / "deploy" / "helm" / "sluice"


def test_default_values_are_valid() -> None:
    """Helm rejects a chart whose values its schema doesn't know."""
    schema = json.loads((CHART / "values.schema.json").read_text())
    jsonschema.validate(yaml.safe_load((CHART / "values.yaml").read_text()), schema)
