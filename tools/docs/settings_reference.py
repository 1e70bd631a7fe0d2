"""Write docs/settings.md and its JSON Schemas: every setting, from the classes that declare them."""

from __future__ import annotations

import json
import types
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Union, cast, get_args, get_origin

from pydantic import TypeAdapter
from pydantic.fields import FieldInfo

from gateway.settings.config import Settings as GatewaySettings
from process.settings.flags import flag_of
from process.settings.json_schema import json_schema
from process.settings.names import fields_of
from process.settings.process_settings import ProcessSettings
from process.settings.setting import RELOAD, UNIT
from runner.settings import ROOT
from runner.settings import Settings as RunnerSettings
from service.settings.config import Settings as ServiceSettings

PAGE: Final = ROOT / "docs" / "settings.md"
SCHEMAS: Final[Mapping[Path, type[ProcessSettings]]] = {
    ROOT / "docs" / "service.schema.json": ServiceSettings,
    ROOT / "docs" / "gateway.schema.json": GatewaySettings,
}

_HEADER: Final = """\
# Settings

Generated from the code by `python -m tools.docs.settings_reference`. `sluice config` prints the values in effect
with the source of each; `--help` of each program has the descriptions of this page.

**Sources.** A setting of the service or the gateway is a flag, a variable, or a key of the YAML or TOML file that
`--config` names; flags override variables, variables the file. In the file, dots are levels: `engine.block_size` is
`engine: {block_size: 32}`. Unknown names in any of them fail the start, with a suggestion if a known name is close. All
problems of a file are printed, one per line. Under `make run` and `sluice serve`, variables reach all three processes,
and flags are those of [the first table](#sluice-serve-and-make-run).

**True or false.** `--name`, `--name true` and `--name=true` set such a setting; `--no-name`, `--name false` and
`--name=false` clear it. Variables and the file have `true` or `false`.

**Changes while a process runs.** It reads its file again when that changes, and on SIGHUP. Settings marked *reloaded*
are applied; others take effect at the next start, and the log lists them. Certificates and the file of API keys are
read again whenever they change.

**Addresses.** A host may be an IPv6 address, with or without brackets: `--host ::1`. With a port it has brackets:
`--target [::1]:50051`.

**Kubernetes** sets variables of its own for a Service named `sluice`, which are unknown names here: set
`enableServiceLinks: false` in the pod.

## Editors

[service.schema.json](service.schema.json) and [gateway.schema.json](gateway.schema.json) are JSON Schemas of the files;
`sluice config --json-schema`, with `--gateway` for the gateway, prints those of the installed version. With this first
line, editors that use the YAML language server complete names, show descriptions, and mark unknown names and values out
of range:

```yaml
# yaml-language-server: $schema=service.schema.json
models:
  - {name: large, path: /models/large, engine: {max_model_len: 8192}}
```

**Where next:** [models and endpoints](models/endpoints.md), [keys](security/keys.md), [limits](security/limits.md),
[TLS](security/tls.md), [operations](operation/operations.md), and [Envoy's own limits](operation/envoy.md), which are
in its file.
"""
_PROGRAMS: Final[Sequence[tuple[str, str, type]]] = (
    ("sluice serve and make run", "They start service, gateway and Envoy on one machine.", RunnerSettings),
    ("The service", "`sluice-service`, or `python -m service`.", ServiceSettings),
    ("The gateway", "`sluice-gateway`, or `python -m gateway`.", GatewaySettings),
)
_COMMAND: Final = """
## Commands that call a server

`sluice chat` and the other commands that call a server read these in addition to their flags:

| variable | meaning |
|---|---|
| `SLUICE_URL` | the server's base URL; default `http://127.0.0.1:8080` |
| `SLUICE_API_KEY` | the API key, if the server requires one |
| `SLUICE_CA_FILE` | certificates to trust, for a server with a private authority |
| `SLUICE_CLIENT_CERT_FILE`, `SLUICE_CLIENT_KEY_FILE` | a certificate and its key, for a server that requires one |

Of other products' variables, `OTEL_EXPORTER_OTLP_ENDPOINT` is read if `otlp_endpoint` is not set,
`OTEL_SEMCONV_STABILITY_OPT_IN` adds [newer names of metrics](operation/telemetry_names.md), and
`ONEDNN_PRIMITIVE_CACHE_CAPACITY` changes what [torch keeps](operation/performance.md#memory).
"""
_TYPES: Final = {int: "integer", float: "number", bool: "`true` or `false`", str: "text", Path: "path"}
_BOUNDS: Final = (("ge", "≥ {}"), ("gt", "> {}"), ("le", "≤ {}"), ("lt", "< {}"), ("min_length", "length ≥ {}"),
                  ("max_length", "length ≤ {}"), ("pattern", "matches `{}`"))  # fmt: skip


def reference() -> str:
    """Return the page's text."""
    return _HEADER + "".join(map(_section, _programs())) + _COMMAND


def schema_text(kind: type[ProcessSettings]) -> str:
    """Return the text of a process's schema."""
    return f"{json.dumps(json_schema(kind), indent=2, ensure_ascii=False)}\n"


def undescribed() -> list[str]:
    """Return the settings without a description."""
    return [
        f"{table.title}: {'.'.join(path)}"
        for program in _programs()
        for table in (program, *program.nested)
        for path, field in table.fields
        if not field.description
    ]


@dataclass
class _Table:
    """A program's settings, or the keys of a class nested in one of them; each class has one table."""

    title: str
    about: str
    kind: type
    fields: list[tuple[tuple[str, ...], FieldInfo]]
    nested: list[_Table] = field(default_factory=list)


def _programs() -> list[_Table]:
    seen: set[type] = set()
    return [_table(title, about, kind, seen) for title, about, kind in _PROGRAMS]


def _table(title: str, about: str, kind: type, seen: set[type]) -> _Table:
    """Return a table with those of the classes nested in it that are not in `seen`."""
    table = _Table(title, about, kind, list(_leaves(kind)))
    seen.add(kind)
    for path, each in table.fields:
        for inner in _classes(each.annotation):
            if inner not in seen:
                found = _table(f"Keys of {'.'.join(path)}", (inner.__doc__ or "").splitlines()[0], inner, seen)
                table.nested += [replace(found, nested=[]), *found.nested]
    return table


def _section(table: _Table) -> str:
    return "".join(map(_text, (table, *table.nested)))


def _text(table: _Table) -> str:
    flags = "env_prefix" in getattr(table.kind, "model_config", {})
    first = "setting, flag, variable" if flags else "key"
    head = f"| {first} | meaning | values | default |\n|---|---|---|---|"
    rows = [_row(table.kind, path, field, flags=flags) for path, field in table.fields]
    return "\n".join(["", f"{'##' if flags else '###'} {table.title}", "", table.about, "", head, *rows, ""])


def _row(kind: type, path: Sequence[str], field: FieldInfo, *, flags: bool) -> str:
    name = f"`{'.'.join(path)}`"
    if flags:
        prefix = str(cast("type[RunnerSettings]", kind).model_config["env_prefix"])
        is_positional = any("PositionalArg" in repr(each) for each in field.metadata)
        name += f"<br>`{'MODEL…' if is_positional else flag_of(path)}`<br>`{prefix}{'__'.join(path).upper()}`"
    meaning = (field.description or "").replace("|", "\\|") + ("; *reloaded*" if _extra(field).get(RELOAD) else "")
    cells = [name, meaning, _values(field.annotation, [field, *field.metadata]), _default(field)]
    return f"| {' | '.join(cells)} |"


def _leaves(kind: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], FieldInfo]]:
    """Yield every setting that contains no others, or that may be null."""
    for name, each in _fields(kind).items():
        if _fields(each.annotation):
            yield from _leaves(each.annotation, (*path, name))
        else:
            yield (*path, name), each


def _classes(kind: Any) -> Iterator[type]:
    """Yield the classes in a type, without those whose fields are in the service's own table."""
    if _fields(kind):
        yield from () if kind in _groups() else (kind,)
    else:
        for each in get_args(kind):
            yield from _classes(each)


def _groups() -> Mapping[type, str]:
    """Return the names of the service's settings that contain others, by their class."""
    fields = ServiceSettings.model_fields.items()
    return {cast("type", each.annotation): name for name, each in fields if _fields(each.annotation)}


def _fields(kind: Any) -> Mapping[str, FieldInfo]:
    """Return the fields of a class; none of `X | None`, which is one setting."""
    return fields_of(kind) if isinstance(kind, type) else {}


def _values(kind: Any, metadata: Sequence[Any] = ()) -> str:
    """Return a type with its unit and range."""
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return _values(arguments[0], [*arguments[1:], *metadata])
    if origin is Literal:
        text = ", ".join(f"`{each}`" for each in arguments)
    elif origin in {Union, types.UnionType}:
        return " or ".join(_values(each, metadata) for each in arguments if each is not type(None))
    elif origin in {list, tuple}:
        text = f"list of: {_values(arguments[0])}"
    elif origin is dict:
        text = f"mapping to: {_values(arguments[1])}"
    elif _fields(kind):
        text = f"like `{_groups()[kind]}` of the service" if kind in _groups() else "keys, see below"
    else:
        text = _TYPES.get(kind, getattr(kind, "__name__", str(kind)))
    unit = next((unit for each in metadata if (unit := _extra(each).get(UNIT))), None)
    return ", ".join([f"{text} ({unit})" if unit else text, *_bounds(metadata)])


def _extra(metadata: Any) -> Mapping[str, Any]:
    found = getattr(metadata, "json_schema_extra", None)
    return found if isinstance(found, dict) else {}


def _bounds(metadata: Sequence[Any]) -> Iterator[str]:
    found: dict[str, None] = {}
    for each in metadata:
        for item in each.metadata if isinstance(each, FieldInfo) else [each]:
            for name, text in _BOUNDS:
                if (bound := getattr(item, name, None)) is not None:
                    found[text.format(str(bound).replace("|", "\\|"))] = None
    yield from found


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    value = field.get_default(call_default_factory=True, validated_data={})
    text = json.dumps(TypeAdapter(Any).dump_python(value, mode="json"), ensure_ascii=False)
    text = text if len(text) <= 60 else text[:57] + '…"'
    return f"`{text}`".replace("|", "\\|")


if __name__ == "__main__":
    PAGE.write_text(reference())
    for path, kind in SCHEMAS.items():
        path.write_text(schema_text(kind))
