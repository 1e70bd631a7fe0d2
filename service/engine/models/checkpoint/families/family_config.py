"""Read the config.json of a type with a layer plan, with the type's defaults."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, Final

from service.engine.models.checkpoint.families.dense import DENSE
from service.engine.models.checkpoint.families.experts import EXPERTS
from service.engine.models.checkpoint.families.family_defaults import FamilyDefaults, Fields, UncommonConfigError
from service.engine.models.checkpoint.families.gemma import GEMMA
from service.engine.models.checkpoint.families.gemma4 import GEMMA4
from service.engine.models.checkpoint.families.latents import LATENTS
from service.engine.models.checkpoint.families.layer_norms import LAYER_NORMS
from service.engine.models.checkpoint.families.mamba import MAMBA
from service.engine.models.checkpoint.families.recurrent import RECURRENT

FAMILY_DEFAULTS: Final = DENSE | LAYER_NORMS | GEMMA | EXPERTS | LATENTS | RECURRENT | MAMBA | GEMMA4
_KINDS: Final = ("full_attention", "sliding_attention")
_SCALED: Final = ("llama3", "yarn", "longrope")  # kinds of rotation with a trained length
_TRAINED: Final = "original_max_position_embeddings"


class FamilyConfig(SimpleNamespace):
    """A configuration with the fields of a config.json and its type's defaults, by transformers' names."""

    model_type: str
    is_part: bool = False  # True for the decoder of a multimodal model


def family_config(raw: dict[str, Any]) -> FamilyConfig | None:
    """Return the configuration, or None if the type is unknown or a value is missing, uncommon or of a wrong type."""
    kind = raw.get("model_type")
    if kind not in FAMILY_DEFAULTS:
        return None
    defaults = FAMILY_DEFAULTS[kind]
    if "per_layer_config" in raw and not defaults.has_own_sizes:
        return None
    if not all(_states_size(raw, name, defaults) for name in defaults.stated):
        return None
    try:
        return FamilyConfig(**_fields(raw, defaults))
    except (UncommonConfigError, TypeError, ValueError, KeyError, AttributeError, ZeroDivisionError):
        return None


def _states_size(raw: dict[str, Any], name: str, defaults: FamilyDefaults) -> bool:
    """Return whether a file has a positive integer by the name of a field or by another name of the field."""
    names = [name, *(alias for alias, field in defaults.aliases.items() if field == name)]
    values = [raw[each] for each in names if each in raw]
    return bool(values) and all(type(value) is int and value > 0 for value in values)


def _fields(raw: dict[str, Any], defaults: FamilyDefaults) -> Fields:
    if _TRAINED in raw and _TRAINED not in defaults.fields:
        raise UncommonConfigError(_TRAINED)
    fields = {**defaults.fields, **raw}
    for alias, name in defaults.aliases.items():
        if alias in raw:
            fields[name] = raw[alias]
    for name, default in defaults.fields.items():
        if not _fits(fields[name], default):
            raise UncommonConfigError(name)
    kinds = fields.get("layer_types")
    num_layers = fields.get("num_hidden_layers")
    if kinds is not None and (num_layers not in (None, len(kinds)) or not set(kinds) <= set(defaults.kinds)):
        raise UncommonConfigError("layer_types")
    fields["rope_parameters"] = _rope_by_kind(raw, defaults) if defaults.local_theta else _rope(raw, fields, defaults)
    defaults.complete(fields)
    fields |= {alias: fields[name] for alias, name in defaults.aliases.items()}
    fields["architectures"] = raw.get("architectures")
    return fields


def _fits(value: object, default: object) -> bool:
    """Return whether a value's type is the default's; a default of None has no type."""
    if default is None or value is None:
        return True
    if isinstance(default, bool) or isinstance(value, bool):
        return isinstance(value, bool) and isinstance(default, bool)
    if isinstance(default, int):
        return isinstance(value, int | float | list)  # a list of end-of-text ids
    return isinstance(value, int | float) if isinstance(default, float) else isinstance(value, type(default))


def _rope(raw: dict[str, Any], fields: Fields, defaults: FamilyDefaults) -> dict[str, Any]:
    """Return the parameters of all layers' rotation, from either of the two formats of config.json."""
    rope = dict(raw.get("rope_scaling") or raw.get("rope_parameters") or defaults.rope)
    if set(rope) & set(_KINDS):
        raise UncommonConfigError("rope_parameters")
    rope.setdefault("rope_theta", raw.get(defaults.theta_name, defaults.rope_theta))
    share = raw.get(defaults.share_name, defaults.rotated_share)
    if share is not None:
        rope.setdefault("partial_rotary_factor", share)
    _complete(rope, fields.get("max_position_embeddings"))
    if rope["rope_type"] in _SCALED and _TRAINED in defaults.fields:
        rope[_TRAINED] = fields[_TRAINED]
    return rope


def _rope_by_kind(raw: dict[str, Any], defaults: FamilyDefaults) -> dict[str, Any]:
    """Return the parameters of each kind of layer."""
    given = raw.get("rope_parameters") or defaults.rope
    ropes = {kind: dict(given.get(kind) or {"rope_type": "default"}) for kind in _KINDS}
    ropes["full_attention"] |= raw.get("rope_scaling") or {}
    full, sliding = (ropes[kind] for kind in _KINDS)
    full.setdefault("rope_theta", raw.get("rope_theta", defaults.rope_theta))
    sliding.setdefault("rope_theta", raw.get(defaults.local_theta_name, defaults.local_theta))
    for rope in ropes.values():
        _complete(rope, raw["max_position_embeddings"])
    return ropes


def _complete(rope: dict[str, Any], max_positions: int | None) -> None:
    rope.setdefault("rope_type", rope.get("type", "default"))
    if rope["rope_type"] in _SCALED:
        rope.setdefault(_TRAINED, max_positions)
