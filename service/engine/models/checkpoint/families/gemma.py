"""The defaults of Gemma's types for text."""

from __future__ import annotations

from typing import Final

from service.engine.models.checkpoint.families.dense import LLAMA
from service.engine.models.checkpoint.families.family_defaults import (
    FamilyDefaults,
    Fields,
    every_nth_is_full,
)

_GEMMA: Final = LLAMA | {
    "head_dim": 256,
    "hidden_act": "gelu_pytorch_tanh",
    "tie_word_embeddings": True,
    "eos_token_id": 1,
    "use_bidirectional_attention": None,
}
_GEMMA2: Final = {name: value for name, value in _GEMMA.items() if name != "hidden_act"} | {
    "num_key_value_heads": 4,
    "hidden_activation": "gelu_pytorch_tanh",
    "query_pre_attn_scalar": 256,
    "sliding_window": 4096,
    "layer_types": None,
    "attn_logit_softcapping": 50.0,
    "final_logit_softcapping": 30.0,
}


def _gemma(fields: Fields) -> None:
    if fields["hidden_act"] == "gelu":  # in the first files, whose models were trained with the tanh kind
        fields["hidden_act"] = "gelu_pytorch_tanh"


def _gemma3(fields: Fields) -> None:
    every_nth_is_full(6, "sliding_window_pattern")(fields)
    if fields["use_bidirectional_attention"]:  # the window covers the tokens before and after
        fields["sliding_window"] = fields["sliding_window"] // 2 + 1


GEMMA: Final = {
    "gemma": FamilyDefaults(fields=_GEMMA | {"num_key_value_heads": 16}, complete=_gemma),
    "gemma2": FamilyDefaults(fields=_GEMMA2, complete=every_nth_is_full(2)),
    "gemma3_text": FamilyDefaults(
        fields=_GEMMA2 | {"attn_logit_softcapping": None, "final_logit_softcapping": None},
        complete=_gemma3,
        rope_theta=1_000_000.0,
        local_theta=10_000.0,
        local_theta_name="rope_local_base_freq",
    ),
    "vaultgemma": FamilyDefaults(
        fields={name: value for name, value in _GEMMA2.items() if name != "use_bidirectional_attention"},
        complete=every_nth_is_full(2),
    ),
}
