"""Check compose files, merged as Compose merges them, in the environment of `tools/install.sh deploy`."""

import sys
from typing import Any

import compose_spec
import yaml


def merged(base: Any, override: Any) -> Any:
    """Return a value with those of an override: mappings are merged, lists are joined, others are replaced."""
    if isinstance(base, dict) and isinstance(override, dict):
        common = {key: merged(base[key], override[key]) for key in base.keys() & override.keys()}
        return base | override | common
    return base + override if isinstance(base, list) and isinstance(override, list) else override


if __name__ == "__main__":
    document: Any = {}
    for path in sys.argv[1:]:
        with open(path, encoding="utf-8") as file:  # noqa: PTH123  a short script
            document = merged(document, yaml.safe_load(file))  # the reader resolves YAML's merge keys
    compose_spec.PyCompose.from_yaml(yaml.safe_dump(document, sort_keys=False)).validate()
