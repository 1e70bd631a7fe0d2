"""Writes docs/settings.md: every setting of every process, from the classes that read them."""

from __future__ import annotations

import json
import types
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Union, cast, get_args, get_origin

from pydantic import BaseModel, TypeAdapter
from pydantic.dataclasses import is_pydantic_dataclass
from pydantic.fields import FieldInfo

from gateway.config import Settings as GatewaySettings
from runner.settings import ROOT
from runner.settings import Settings as RunnerSettings
from service.settings.config import Settings as ServiceSettings

PAGE: Final = ROOT / "docs" / "settings.md"

_HEADER: Final = """\
# Settings

Generated from the code by `python -m tools.docs.settings_reference`, and compared by a test. `sluice config` prints the
effective values and their sources; `--help` of each program has the same descriptions.

**Sources of settings.** A setting of the service or the gateway is a flag, an environment variable, or a key of the
YAML or TOML file named by `--config`. Flags take precedence over variables, variables over the file. In the file, dots
are levels: `engine.block_size` is `engine: {block_size: 32}`. An unknown name stops the start, with the nearest known
name. With `make run` and `sluice serve`, variables reach all three processes, and the flags are those of
[the first table](#sluice-serve-and-make-run).

**Kubernetes** sets variables of its own for a Service named `sluice`, which would be unknown names: set
`enableServiceLinks: false` in the pod.

**Next:** [models and endpoints](endpoints.md), [keys](keys.md), [limits](limits.md), [TLS](tls.md),
[operations](operations.md), and [Envoy's limits](envoy.md), which are in its own file.
"""
_SERVICE: Final = (
    "`sluice-service`, or `python -m service`. Times are in seconds; whole numbers of `engine` and of limits are at "
    "least 1."
)
_PROGRAMS: Final[Sequence[tuple[str, str, type]]] = (
    ("sluice serve and make run", "They start service, gateway and Envoy on one machine.", RunnerSettings),
    ("The service", _SERVICE, ServiceSettings),
    ("The gateway", "`sluice-gateway`, or `python -m gateway`. Times are in seconds.", GatewaySettings),
)  # fmt: skip
_COMMAND: Final = """
## Client commands

`sluice chat` and the other client commands read these variables in addition to their flags:

| variable | meaning |
|---|---|
| `SLUICE_URL` | the server's base URL; default `http://127.0.0.1:8080` |
| `SLUICE_API_KEY` | the API key, if the server requires one |
| `SLUICE_CA_FILE` | trusted certificates, for a server with TLS |

`OTEL_EXPORTER_OTLP_ENDPOINT` is used if `otlp_endpoint` is not set, and `ONEDNN_PRIMITIVE_CACHE_CAPACITY` limits the
kernels that [torch caches](performance.md#memory).
"""
_WORDS: Final = {int: "whole number", float: "number", bool: "`true` or `false`", str: "text", Path: "path"}
_BOUNDS: Final = (("ge", "≥ {}"), ("gt", "> {}"), ("le", "≤ {}"), ("lt", "< {}"), ("min_length", "length ≥ {}"),
                  ("max_length", "length ≤ {}"), ("pattern", "as `{}`"))  # fmt: skip


def reference() -> str:
    """The page's text."""
    return _HEADER + "".join(map(_section, _programs())) + _COMMAND


def undescribed() -> list[str]:
    """Settings that say nothing about themselves."""
    return [
        f"{part.title}: {'.'.join(place)}"
        for program in _programs()
        for part in (program, *program.parts)
        for place, field in part.fields
        if not field.description
    ]


@dataclass
class _Part:
    """A program's settings, or the keys of what stands in one of them; `parts` are those in it, each class once."""

    title: str
    about: str
    kind: type
    fields: list[tuple[tuple[str, ...], FieldInfo]]
    parts: list[_Part] = field(default_factory=list)


def _programs() -> list[_Part]:
    seen: dict[type, str] = {}
    return [_part(title, about, kind, seen) for title, about, kind in _PROGRAMS]


def _part(title: str, about: str, kind: type, seen: dict[type, str]) -> _Part:
    """A part and all in it. `seen` has the title of each class's part."""
    part = _Part(title, about, kind, list(_leaves(kind)))
    seen[kind] = title
    for place, each in part.fields:
        for inner in _classes(each.annotation):
            if inner not in seen:
                name = ".".join(place)
                found = _part(f"Keys of {name}", f"{(inner.__doc__ or '').splitlines()[0]}", inner, seen)
                part.parts += [replace(found, parts=[]), *found.parts]
    return part


def _section(part: _Part) -> str:
    return "".join(map(_table, (part, *part.parts)))


def _table(part: _Part) -> str:
    flags = "env_prefix" in getattr(part.kind, "model_config", {})
    first = "setting, flag, variable" if flags else "key"
    head = f"| {first} | what it is | values | default |\n|---|---|---|---|"
    rows = [_row(part.kind, place, field, flags=flags) for place, field in part.fields]
    return "\n".join(["", f"{'##' if flags else '###'} {part.title}", "", part.about, "", head, *rows, ""])


def _row(kind: type, place: Sequence[str], field: FieldInfo, *, flags: bool) -> str:
    named = f"`{'.'.join(place)}`"
    if flags:
        prefix = str(cast("type[RunnerSettings]", kind).model_config["env_prefix"])
        flag = "--" + ".".join(place).replace("_", "-")
        is_word = any("PositionalArg" in repr(each) for each in field.metadata)
        named += f"<br>`{'MODEL…' if is_word else flag}`<br>`{prefix}{'__'.join(place).upper()}`"
    words = (field.description or "").replace("|", "\\|")
    cells = [named, words, _values(field.annotation, field.metadata), _default(field)]
    return f"| {' | '.join(cells)} |"


def _leaves(kind: Any, place: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], FieldInfo]]:
    """Every setting that has no others in it, or that may be left out whole."""
    for name, each in _fields(kind).items():
        inner = each.annotation if _fields(each.annotation) else None
        if inner is None:
            yield (*place, name), each
        else:
            yield from _leaves(inner, (*place, name))


def _classes(kind: Any) -> Iterator[type]:
    """The classes of settings that a type is made of, but those whose fields the service's own table has."""
    if _fields(kind):
        yield from () if kind in _groups() else (kind,)
    else:
        for each in get_args(kind):
            yield from _classes(each)


def _groups() -> Mapping[type, str]:
    """The service's settings that have others in them."""
    fields = ServiceSettings.model_fields.items()
    return {cast("type", each.annotation): name for name, each in fields if _fields(each.annotation)}


def _fields(kind: Any) -> Mapping[str, FieldInfo]:
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        return kind.model_fields
    if isinstance(kind, type) and is_pydantic_dataclass(kind):
        return cast("Mapping[str, FieldInfo]", kind.__pydantic_fields__)
    return {}


def _values(kind: Any, metadata: Sequence[Any] = ()) -> str:
    """A type and its range as readers say them."""
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return _values(arguments[0], [*arguments[1:], *metadata])
    if origin is Literal:
        words = ", ".join(f"`{each}`" for each in arguments)
    elif origin in {Union, types.UnionType}:
        words = " or ".join(_values(each) for each in arguments if each is not type(None))
    elif origin in {list, tuple}:
        words = f"list of: {_values(arguments[0])}"
    elif origin is dict:
        words = f"mapping to: {_values(arguments[1])}"
    elif _fields(kind):
        words = f"as `{_groups()[kind]}` of the service" if kind in _groups() else "keys, see below"
    else:
        words = _WORDS.get(kind, getattr(kind, "__name__", str(kind)))
    return ", ".join([words, *_bounds(metadata)])


def _bounds(metadata: Sequence[Any]) -> Iterator[str]:
    for each in metadata:
        yield from _bounds(each.metadata) if isinstance(each, FieldInfo) else ()
        for name, words in _BOUNDS:
            if (bound := getattr(each, name, None)) is not None and not isinstance(each, FieldInfo):
                yield words.format(str(bound).replace("|", "\\|"))


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    value = field.get_default(call_default_factory=True, validated_data={})
    if isinstance(value, Path) and value.is_relative_to(ROOT):
        return f"`{value.relative_to(ROOT)}` in the checkout; installed, in `~/.local/state/sluice/`"
    text = json.dumps(TypeAdapter(Any).dump_python(value, mode="json"), ensure_ascii=False)
    text = text if len(text) <= 60 else text[:57] + '…"'
    return f"`{text}`".replace("|", "\\|")


if __name__ == "__main__":
    PAGE.write_text(reference())
