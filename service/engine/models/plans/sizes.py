"""The memory that a plan's sequences take: keys and values of each token, and states of recurrent layers."""

from __future__ import annotations

from service.engine.models.plans.plan import AttentionPlan, DecoderPlan, LayerPlan, RecurrentPlan

_LANES = 16  # sizes that the native step pads to a multiple of it
_NUMBER_BYTES = {"float32": 4, "bfloat16": 2, "float16": 2, "int8": 1}
_SCALED_KEYS, _SCALE_BYTES = 32, 4  # of int8: numbers of a key that share a scale; a value has one scale
_STATE_BYTES = 4  # of a number of a state, which is float32


def cache_bytes_per_token(plan: DecoderPlan, dtype: str) -> int:
    """Return the bytes of a token's keys and values of a type in all layers."""
    return sum(layer_cache_bytes(layer, dtype) for layer in plan.layers)


def layer_cache_bytes(layer: LayerPlan, dtype: str) -> int:
    """Return the bytes of a token's keys and values of a type in a layer, with the scales of int8."""
    if dtype != "int8" or not isinstance(layer.attention, AttentionPlan) or layer.attention.keys_back > 0:
        return layer.cached_width * _NUMBER_BYTES[dtype]
    width = _padded(layer.attention.head_dim)
    num_scales = -(-width // _SCALED_KEYS)
    key, value = num_scales * (_SCALED_KEYS + _SCALE_BYTES), width + _SCALE_BYTES
    return layer.attention.num_kv_heads * (key + value)


def state_bytes(plan: DecoderPlan) -> int:
    """Return the bytes of a sequence's state in all recurrent layers; 0 if there are none."""
    mixers = [layer.recurrent for layer in plan.layers if layer.recurrent is not None]
    return _STATE_BYTES * sum(_padded(_state_numbers(mixer)) for mixer in mixers)


def _state_numbers(mixer: RecurrentPlan) -> int:
    has_values_only = mixer.kind in {"short_convolution", "mamba"}
    channels = mixer.inner_width + (0 if has_values_only else 2 * mixer.keys_width)
    heads = mixer.num_heads * mixer.key_dim * _padded(mixer.value_dim)
    return (mixer.taps - 1) * _padded(channels) + heads


def _padded(count: int) -> int:
    return -(-count // _LANES) * _LANES
