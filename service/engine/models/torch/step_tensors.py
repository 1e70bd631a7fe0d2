"""The tensors of a plan's step, by name and shape. The native step has the same ones."""

from __future__ import annotations

from collections.abc import Iterator

from service.engine.models.plans.plan import AttentionPlan, DecoderPlan, DensePlan, ExpertsPlan, LayerPlan
from service.engine.models.plans.sources import Shape

_CURVE = 4  # the parameters of xIELU; see `xielu_of`


def tensor_shapes(plan: DecoderPlan) -> dict[str, Shape]:
    """Return the shapes of the tensors outside of layers."""
    hidden = plan.hidden_size
    shapes: dict[str, Shape] = {"model.embed_tokens.weight": (plan.vocab_size, hidden)}
    shapes |= _norm("model.norm", hidden, has_bias=plan.has_norm_bias)
    if not plan.is_tied:
        shapes["lm_head.weight"] = (plan.vocab_size, hidden)
    if plan.has_head_bias:
        shapes["lm_head.bias"] = (plan.vocab_size,)
    return shapes


def layer_tensor_shapes(plan: DecoderPlan, index: int) -> dict[str, Shape]:
    """Return the shapes of the tensors of a layer."""
    prefix = f"model.layers.{index}."
    return {prefix + name: shape for name, shape in _layer(plan, plan.layers[index])}


def all_tensor_shapes(plan: DecoderPlan) -> dict[str, Shape]:
    """Return the shapes of all tensors."""
    shapes = tensor_shapes(plan)
    for index in range(len(plan.layers)):
        shapes |= layer_tensor_shapes(plan, index)
    return shapes


def _layer(plan: DecoderPlan, layer: LayerPlan) -> Iterator[tuple[str, Shape]]:
    norms = {
        "input_layernorm": layer.has_attention_norm,
        "post_attention_layernorm": layer.has_mlp_norm,
        "post_self_attn_layernorm": layer.has_attention_output_norm,
        "post_mlp_layernorm": layer.has_mlp_output_norm,
    }
    for name, exists in norms.items():
        if exists:
            yield from _norm(name, plan.hidden_size, has_bias=plan.has_norm_bias).items()
    yield from _attention(layer.heads, plan.hidden_size)
    if isinstance(layer.feed_forward, ExpertsPlan):
        yield from _experts(layer.feed_forward, plan.hidden_size)
    elif layer.feed_forward is not None:
        yield from _dense(layer.feed_forward, plan.hidden_size)


def _attention(plan: AttentionPlan, hidden: int) -> Iterator[tuple[str, Shape]]:
    queries, keys = plan.num_heads * plan.head_dim, plan.num_kv_heads * plan.head_dim
    for name, count in (("q_proj", queries), ("k_proj", keys), ("v_proj", keys)):
        yield from _linear(f"self_attn.{name}", count, hidden, has_bias=plan.has_qkv_bias)
    yield from _linear("self_attn.o_proj", hidden, queries, has_bias=plan.has_output_bias)
    if plan.head_norm != "none":
        for name, count in (("q_norm", queries), ("k_norm", keys)):
            width = plan.head_dim if plan.head_norm == "head" else count
            yield from _norm(f"self_attn.{name}", width, has_bias=plan.has_head_norm_bias).items()
    if plan.has_sinks:
        yield "self_attn.sinks", (plan.num_heads,)


def _dense(plan: DensePlan, hidden: int) -> Iterator[tuple[str, Shape]]:
    for name in ("gate_proj", "up_proj") if plan.is_gated else ("up_proj",):
        yield from _linear(f"mlp.{name}", plan.width, hidden, has_bias=plan.has_bias)
    yield from _linear("mlp.down_proj", hidden, plan.width, has_bias=plan.has_bias)
    if plan.activation == "xielu":
        yield "mlp.curve", (_CURVE,)


def _experts(plan: ExpertsPlan, hidden: int) -> Iterator[tuple[str, Shape]]:
    yield from _linear("mlp.gate", plan.num_experts, hidden, has_bias=plan.has_router_bias)
    if plan.has_correction:
        yield "mlp.gate.e_score_correction_bias", (plan.num_experts,)
    if plan.has_shared_gate:
        yield "mlp.shared_expert_gate.weight", (1, hidden)
    widths = {f"mlp.experts.{index}": plan.width for index in range(plan.num_experts)}
    if plan.shared_width:
        widths["mlp.shared_expert"] = plan.shared_width
    for name, width in widths.items():
        for part in ("gate_proj", "up_proj"):
            yield from _linear(f"{name}.{part}", width, hidden, has_bias=plan.has_bias)
        yield from _linear(f"{name}.down_proj", hidden, width, has_bias=plan.has_bias)


def _linear(name: str, outputs: int, inputs: int, *, has_bias: bool) -> Iterator[tuple[str, Shape]]:
    yield f"{name}.weight", (outputs, inputs)
    if has_bias:
        yield f"{name}.bias", (outputs,)


def _norm(name: str, width: int, *, has_bias: bool) -> dict[str, Shape]:
    shapes: dict[str, Shape] = {f"{name}.weight": (width,)}
    if has_bias:
        shapes[f"{name}.bias"] = (width,)
    return shapes
