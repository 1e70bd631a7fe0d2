"""A decoder's or encoder's plan: all that a backend computes. `native/src/plan/plan_fields.h` has the same fields."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal

LARGEST = 3.4028234663852886e38  # float32's largest number: no limit
NormKind = Literal["rms", "layer"]
Scores = Literal["softmax", "sigmoid", "chosen_softmax"]
HeadNorm = Literal["none", "head", "heads", "whole"]
Recurrence = Literal["short_convolution", "delta_net", "mamba2", "mamba", "lightning"]
GateNorm = Literal["none", "norm_first", "gate_first"]
Activation = Literal["silu", "gelu", "gelu_tanh", "relu", "squared_relu", "xielu"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RotaryPlan:
    """A table of rotary positions, whose numbers include any scaling of positions."""

    inverse_frequencies: tuple[float, ...]  # of the rotated dimensions of a head, in pairs (i, i + half)
    factor: float = 1.0  # on cosine and sine


@dataclass(frozen=True, slots=True, kw_only=True)
class AttentionPlan:
    """The attention of a layer."""

    num_heads: int
    num_kv_heads: int
    head_dim: int
    scale: float  # on scores
    window: int = 0  # a token attends to tokens nearer than this, also to later ones unless it is causal; 0: to all
    rotary: int = 0  # index of the rotary table; -1: queries and keys are not rotated
    soft_cap: float = 0.0  # scores become soft_cap * tanh(score / soft_cap); 0: unchanged
    clip: float = 0.0  # queries, keys and values are limited to [-clip, clip]; 0: unlimited
    head_norm: HeadNorm = "none"  # of queries and keys: of each head, with the same weights or its own, or of all heads
    has_head_norm_bias: bool = False
    norms_rotated: bool = False  # the head norm follows the rotation
    has_qkv_bias: bool = False
    has_output_bias: bool = False
    has_sinks: bool = False  # each head has a logit that takes part in the softmax and has no value
    has_gate: bool = False  # each number of a head's result is multiplied by the sigmoid of a projected one
    output_multiplier: float = 1.0
    # Queries at position p are multiplied by 1 + growth * log(1 + floor(p / growth_period)); 0: unchanged.
    growth: float = 0.0
    growth_period: int = 1
    is_causal: bool = True  # a token attends to no later one
    norms_values: bool = False  # the values of each head are divided by their root mean square
    values_are_keys: bool = False  # values are the projected keys, before their norm and rotation
    keys_back: int = 0  # keys and values are those of the layer this many before; 0: the layer has its own


@dataclass(frozen=True, slots=True, kw_only=True)
class RecurrentPlan:
    """A mixer whose state has the same size at each position. A head's state is a matrix [key_dim, value_dim]."""

    kind: Recurrence
    value_dim: int  # of a head; of short_convolution, the number of channels
    taps: int  # tokens that the convolution sees, including the present one
    num_heads: int = 1
    num_key_heads: int = 0  # each is shared by consecutive heads; 0 for short_convolution
    key_dim: int = 0  # 0 for short_convolution; of mamba, the numbers of a channel's state
    has_convolution_bias: bool = False
    has_input_bias: bool = False
    has_output_bias: bool = False
    gate_norm: GateNorm = "none"  # how results are gated and normalized
    norm_size: int = 1  # numbers that are normalized together
    norm_epsilon: float = 0.0  # of this norm; 0: that of the decoder's norms
    slope: float = 0.0  # of lightning, whose head h decays by exp(-slope * 2 ** (-8 * (h + 1) / num_heads))
    least_step: float = 0.0  # limits of Mamba2's steps
    most_step: float = LARGEST
    step_rank: int = 0  # of mamba, the inputs of the product that gives steps; 0 for others
    has_parameter_norms: bool = False  # of these inputs, of mamba's keys and of its queries
    parameter_epsilon: float = 0.0  # of these norms
    gate_multiplier: float = 1.0  # on mamba2's projected gates, values, keys, queries and steps
    value_multiplier: float = 1.0
    key_multiplier: float = 1.0
    query_multiplier: float = 1.0
    step_multiplier: float = 1.0
    output_multiplier: float = 1.0

    @property
    def inner_width(self) -> int:
        """The width of the results of all heads."""
        return self.num_heads * self.value_dim

    @property
    def keys_width(self) -> int:
        """The width of all keys, which is that of all queries."""
        return self.num_key_heads * self.key_dim


@dataclass(frozen=True, slots=True, kw_only=True)
class LatentPlan:
    """Attention whose keys and values are products of one latent per token, which is what the cache holds."""

    num_heads: int
    kv_rank: int  # size of a latent
    query_rank: int  # queries are two products with this inner size; 0: one product
    key_dim: int  # of a head's queries and keys that are not rotated
    rotated_dim: int  # of a head's queries, and of the key that all heads share
    value_dim: int
    scale: float  # on scores
    norm_epsilon: float  # of the norms of latents and of the queries' inner numbers
    rotary: int = 0  # index of the rotary table; -1: no rotation
    has_down_bias: bool = False  # of the products that give latents and the queries' inner numbers
    has_output_bias: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DensePlan:
    """A feed-forward part whose weights all apply to every token."""

    width: int
    activation: Activation = "silu"
    is_gated: bool = True  # activation(gate * gate_multiplier) * up; otherwise activation(up)
    has_bias: bool = False
    gate_multiplier: float = 1.0
    output_multiplier: float = 1.0
    is_sparse: bool = False  # a gate becomes relu(gate - mean - cutoff * deviation), both of all gates of a token
    cutoff: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpertsPlan:
    """A feed-forward part of experts, of which each token chooses some by a router."""

    num_experts: int
    num_chosen: int  # of each token
    width: int  # inner size of an expert
    activation: Activation = "silu"
    swiglu_limit: float = 0.0  # gpt-oss: SwiGLU of limited gate and up, plus 1; 0: activation(gate) * up
    swiglu_alpha: float = 1.0
    is_gated: bool = True  # activation(gate) * up; otherwise activation(up)
    has_bias: bool = False  # of the experts' matrices
    has_router_norm: bool = False  # the router reads the residual, normalized with weights of its own
    logit_multiplier: float = 1.0  # on the router's logits
    scores: Scores = "softmax"  # of router logits; chosen_softmax: chosen by logits, normalized over the chosen
    has_router_bias: bool = False
    has_correction: bool = False  # added to the scores for the choice only
    num_groups: int = 1  # of consecutive experts
    num_chosen_groups: int = 1  # whose experts can be chosen
    adds_two: bool = False  # a group's score is the sum of its two highest scores for the choice; otherwise the highest
    is_renormalized: bool = False  # a token's weights are divided by their sum, plus sum_addend and at least least_sum
    sum_addend: float = 0.0
    least_sum: float = 0.0
    scale: float = 1.0  # on the weights of the chosen experts
    has_expert_scales: bool = False  # the weight of each expert is multiplied by a stored number
    shared_width: int = 0  # inner size of the expert that computes every token; 0: none
    has_shared_gate: bool = False  # its weight is the sigmoid of a product; otherwise 1


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerPlan:
    """A layer: mixers, then a feed-forward part, with norms before each part or of its results.

    Attention and a recurrent part of one layer read the same inputs, and their results are added.
    """

    attention: AttentionPlan | LatentPlan | None = None
    recurrent: RecurrentPlan | None = None
    feed_forward: DensePlan | ExpertsPlan | None = None
    # Experts in addition to a dense feed-forward part. They read the same residual through norms of their own, and the
    # results of both are normalized, then added.
    experts: ExpertsPlan | None = None
    has_attended_norm: bool = False  # of the inputs of the attention's output product
    has_inner_norm: bool = False  # of the inputs of the feed-forward part's second product
    has_attention_norm: bool = True
    has_attention_output_norm: bool = False
    has_mlp_norm: bool = True
    has_mlp_output_norm: bool = False
    has_attention_sum_norm: bool = False  # of the residual, after a part's results were added
    has_mlp_sum_norm: bool = False
    # The residual becomes its norm before a part, times this number; 0: it stays as it is.
    attention_residual_multiplier: float = 0.0
    mlp_residual_multiplier: float = 0.0
    is_parallel: bool = (
        False  # both parts read the same residual; without a norm of its own, the second uses the first's
    )
    # Gemma 3n: the attention's inputs and the normalized results of two products with this inner size are added to the
    # residual as well, which is then divided by sqrt(2). 0: none.
    laurel_rank: int = 0
    has_scale: bool = False  # the residual after the layer is multiplied by a stored number

    @property
    def is_causal(self) -> bool:
        """Whether tokens attend to no later ones."""
        return not isinstance(self.attention, AttentionPlan) or self.attention.is_causal

    @property
    def window(self) -> int:
        """The number of tokens that a token attends to, including itself; 0: all."""
        return self.attention.window if isinstance(self.attention, AttentionPlan) else 0

    @property
    def cached_width(self) -> int:
        """The numbers of keys and values that the native step caches per token; those of a head are padded to 16."""
        if isinstance(self.attention, LatentPlan):
            return _padded(self.attention.kv_rank + self.attention.rotated_dim)
        if self.attention is None or self.attention.keys_back > 0:
            return 0
        return 2 * self.attention.num_kv_heads * _padded(self.attention.head_dim)

    @property
    def heads(self) -> AttentionPlan:
        """The attention of a layer whose heads have keys and values of their own. Raise TypeError for others."""
        if not isinstance(self.attention, AttentionPlan):
            raise TypeError("the layer has no attention, or attention over latents")
        return self.attention

    @property
    def latents(self) -> LatentPlan:
        """The attention of a layer whose heads share latents. Raise TypeError for others."""
        if not isinstance(self.attention, LatentPlan):
            raise TypeError("the layer has no attention over latents")
        return self.attention

    @property
    def routed(self) -> ExpertsPlan | None:
        """The layer's experts, or None if it has none."""
        return self.feed_forward if isinstance(self.feed_forward, ExpertsPlan) else self.experts

    @property
    def mixer(self) -> RecurrentPlan:
        """The recurrent part of a layer that has one."""
        if self.recurrent is None:
            raise ValueError("the layer has no recurrent part")
        return self.recurrent

    @property
    def width(self) -> int:
        """The inner width of the feed-forward part of a layer that has one."""
        if self.feed_forward is None:
            raise ValueError("the layer has no feed-forward part")
        return self.feed_forward.width


@dataclass(frozen=True, slots=True, kw_only=True)
class DecoderPlan:
    """A decoder: embedding, layers, final norm, head. An encoder has no head."""

    vocab_size: int
    hidden_size: int
    norm_epsilon: float
    is_tied: bool  # the head's weights are the embedding
    rotary: tuple[RotaryPlan, ...]
    layers: tuple[LayerPlan, ...]
    norm_kind: NormKind = "rms"
    has_norm_bias: bool = False
    embedding_multiplier: float = 1.0
    residual_multiplier: float = 1.0  # on a part's results, before they are added
    logit_multiplier: float = 1.0
    logit_soft_cap: float = 0.0  # logits become soft_cap * tanh(logit / soft_cap); 0: unchanged
    has_head_bias: bool = False
    has_head: bool = True  # otherwise the results are states, computed from whole texts without a cache
    has_final_norm: bool = True
    has_embedding_norm: bool = False
    num_positions: int = 0  # rows of the table of learned positions, which are added to the embedding; 0: none
    first_position: int = 0  # the row of a text's first token
    num_types: int = 0  # rows of the table of token types; 0: none
    # Gemma 3n's and 4's inputs of layers: each token has a vector of this width for each layer, made of its embedding
    # and of a row of a table. It gates a product of the residual after the layer, whose normalized second product is
    # added to the residual. 0: none.
    layer_input_width: int = 0
    num_layer_inputs: int = 0  # rows of the table; a token beyond it has row 0
    layer_input_activation: Activation = "silu"
    # Gemma 3n's residuals of a token in addition to the one that layers compute. Before a layer all are predicted from
    # all, and after it they are corrected by what it changed: Baykal et al., Alternating Updates (2023).
    num_extra_streams: int = 0
    scales_corrected: bool = False  # the corrected residual is multiplied by weights before it meets layers' inputs

    def to_native(self) -> dict[str, Any]:
        """Return the plan as `sluice_native.Model` takes it."""
        return asdict(self)


def _padded(width: int) -> int:
    return -(-width // 16) * 16


class PlanUnsupportedError(Exception):
    """No plan describes a configuration; the text names the configuration's field."""
