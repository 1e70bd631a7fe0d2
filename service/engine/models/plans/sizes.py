"""The memory that a plan's sequences take: keys and values of each token, and states of recurrent layers."""

from __future__ import annotations

from service.engine.models.plans.plan import DecoderPlan, RecurrentPlan

_LANES = 16  # sizes that the native step pads to a multiple of it
_STATE_BYTES = 4  # of a number of a state, which is float32


def cache_bytes_per_token(plan: DecoderPlan, num_bytes: int) -> int:
    """Return the bytes of a token's keys and values in all layers, of `num_bytes` each."""
    return num_bytes * sum(layer.cached_width for layer in plan.layers)


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
