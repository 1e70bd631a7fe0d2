"""The JSON Schema of the file that `config` names, for editors."""

from __future__ import annotations

from typing import Any, Final

from process.settings.process_settings import ProcessSettings

_DRAFT: Final = "https://json-schema.org/draft/2020-12/schema"


def json_schema(kind: type[ProcessSettings]) -> dict[str, Any]:
    """Return the schema. `x-unit` is the unit of a number; `x-reload` marks what a running process applies."""
    schema = kind.model_json_schema()
    del schema["properties"]["config"]  # a file can't name another file
    _drop_titles(schema)
    return {
        "$schema": _DRAFT,
        "title": f"Settings of {kind.model_config['cli_prog_name']}",
        **{name: value for name, value in schema.items() if name != "title"},
    }


def _drop_titles(schema: Any) -> None:
    """Remove the titles that repeat a name; a property may be called `title`."""
    if isinstance(schema, list):
        for each in schema:
            _drop_titles(each)
    elif isinstance(schema, dict):
        if isinstance(schema.get("title"), str):
            del schema["title"]
        for name, value in schema.items():
            if name in {"properties", "$defs"}:
                for each in value.values():
                    _drop_titles(each)
            elif name not in {"default", "enum", "const", "examples"}:
                _drop_titles(value)
