"""Load the tensors of a checkpoint into the torch decoder, as a layer plan says.

One layer at a time is converted, reordered and laid out, so the peak memory is one layer above the final size.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final

import torch
from torch import Tensor

from service.engine.models.attention.accelerator import Accelerator
from service.engine.models.attention.device_kernels import DeviceExperts, DeviceKernels
from service.engine.models.attention.scores import Scores
from service.engine.models.checkpoint.checkpoint import Checkpoint
from service.engine.models.plans.families.table import FAMILIES, plan_of
from service.engine.models.plans.plan import Activation as ActivationName
from service.engine.models.plans.plan import DecoderPlan, DensePlan, ExpertsPlan
from service.engine.models.plans.sources import Shape, Tensors, read_tensors
from service.engine.models.plans.stored_head import with_stored_head
from service.engine.models.torch.decoder import Decoder, DecoderWeights
from service.engine.models.torch.fused_adapter import in_pairs
from service.engine.models.torch.layers.activation import Activation, Inner, activation_named, gated_by, limited_swiglu
from service.engine.models.torch.layers.attention import Attention, Visibility
from service.engine.models.torch.layers.experts import Expert, Experts, ListedExperts, Router
from service.engine.models.torch.layers.feed_forward import Dense
from service.engine.models.torch.layers.layer import Layer
from service.engine.models.torch.layers.linear import Linear, lay_out
from service.engine.models.torch.layers.norm import AllHeadsNorm, EachHeadNorm, Norm
from service.engine.models.torch.layers.ops import as_tensor, rotation_table
from service.engine.models.torch.parallel_layers import ParallelLMHead, RowParallelLinear, VocabParallelEmbedding
from service.engine.models.torch.shard import WHOLE, Shard
from service.engine.models.torch.step_tensors import layer_tensor_shapes, tensor_shapes

_DERIVED: Final = ("rotary_emb.inv_freq",)  # some old checkpoints store tensors that the configuration implies


def load_decoder(
    config: Any,
    checkpoint: Checkpoint,
    dtype: torch.dtype,
    device: torch.device,
    max_positions: int,
    *,
    shard: Shard = WHOLE,
    accelerator: Accelerator | None = None,
    cache_dtype: torch.dtype | None = None,
) -> Decoder:
    """Load the decoder, or a rank's shard. Raise ModelLoadError for a missing, unexpected or misshapen tensor.

    The forward pass of a shard needs a process group of all ranks. `cache_dtype` None is `dtype`.
    """
    plan = plan_of(config)
    tensors = FAMILIES[config.model_type].tensors_in(checkpoint.__contains__, plan)
    plan = with_stored_head(plan, tensors, checkpoint)

    def read(shapes: dict[str, Shape]) -> dict[str, Tensor]:
        """Return the rank's parts of the step's tensors, in their stored types."""
        arrays = read_tensors(
            shapes, plan, tensors, checkpoint.take, lambda name: shard.part_of(name, shapes[name], plan)
        )
        return {name: as_tensor(array).to(device) for name, array in arrays}

    decoder = build_decoder(
        plan, tensors, read, dtype, max_positions, shard=shard, accelerator=accelerator, cache_dtype=cache_dtype
    )
    unused = tensors.unused_in((name for name, _, _ in checkpoint.describe()), plan)
    derived = (*_DERIVED, *unused)
    checkpoint.require_all_taken(known=(*derived, "lm_head.weight") if plan.is_tied else derived)
    return decoder


def build_decoder(
    plan: DecoderPlan,
    tensors: Tensors,
    read: Callable[[dict[str, Shape]], dict[str, Tensor]],
    dtype: torch.dtype,
    max_positions: int,
    *,
    shard: Shard = WHOLE,
    accelerator: Accelerator | None = None,
    cache_dtype: torch.dtype | None = None,
) -> Decoder:
    """Return the decoder of a plan, or a rank's shard.

    `read` returns tensors of the step, of which the shapes are given by name, on the decoder's device.
    """
    kernels = None if accelerator is None else accelerator.kernels
    top = read(tensor_shapes(plan))
    embedding = top["model.embed_tokens.weight"]
    layers = tuple(
        _LayerBuilder(plan, index, shard, read(layer_tensor_shapes(plan, index)), dtype, kernels=kernels).layer()
        for index in range(len(plan.layers))
    )
    head = top.get("lm_head.weight", embedding).to(dtype)
    bias = top["lm_head.bias"].to(dtype) if plan.has_head_bias else None
    first_id = shard.vocabulary(plan.vocab_size).start
    weights = DecoderWeights(
        token_embedding=embedding if shard == WHOLE else VocabParallelEmbedding(embedding, first_id),
        layers=layers,
        norm=_norm(top, "model.norm", plan, dtype, kernels),
        head=lay_out(head, bias, kernels) if shard == WHOLE else ParallelLMHead(head, bias, shard, plan.vocab_size),
        rotations=tuple(
            rotation_table(torch.tensor(table.inverse_frequencies), table.factor, max_positions).to(embedding.device)
            for table in plan.rotary
        ),
    )
    return Decoder(plan, tensors, weights, dtype, accelerator=accelerator, cache_dtype=cache_dtype)


def _norm(
    held: dict[str, Tensor], name: str, plan: DecoderPlan, dtype: torch.dtype, kernels: DeviceKernels | None
) -> Norm:
    bias = held.get(f"{name}.bias")
    weight = held[f"{name}.weight"].to(dtype)
    return Norm(weight, None if bias is None else bias.to(dtype), plan.norm_epsilon, plan.norm_kind == "rms", kernels)


def _stacked(parts: list[tuple[Tensor, Tensor | None]]) -> tuple[Tensor, Tensor | None]:
    """Stack the experts' matrices, and their biases if they have any."""
    biases = [bias for _, bias in parts if bias is not None]
    return torch.stack([weight for weight, _ in parts]), torch.stack(biases) if biases else None


class _LayerBuilder:
    """Makes a layer of its tensors, which have the step's names and are this rank's parts."""

    def __init__(
        self,
        plan: DecoderPlan,
        index: int,
        shard: Shard,
        held: dict[str, Tensor],
        dtype: torch.dtype,
        *,
        kernels: DeviceKernels | None,
    ) -> None:
        self._plan = plan
        self._index = index
        self._shard = shard
        self._dtype = dtype
        self._kernels = kernels
        prefix = f"model.layers.{index}."
        self._held = {name.removeprefix(prefix): tensor for name, tensor in held.items()}

    def layer(self) -> Layer:
        plan = self._plan.layers[self._index]
        return Layer(
            index=self._index,
            attention=self._attention(),
            feed_forward=self._experts() if isinstance(plan.feed_forward, ExpertsPlan) else self._dense(),
            attention_norm=self._norm_if(plan.has_attention_norm, "input_layernorm"),
            attention_output_norm=self._norm_if(plan.has_attention_output_norm, "post_self_attn_layernorm"),
            mlp_norm=self._norm_if(plan.has_mlp_norm, "post_attention_layernorm"),
            mlp_output_norm=self._norm_if(plan.has_mlp_output_norm, "post_mlp_layernorm"),
            is_parallel=plan.is_parallel,
            residual_multiplier=self._plan.residual_multiplier,
        )

    def _norm_if(self, exists: bool, name: str) -> Norm | None:  # noqa: FBT001
        return _norm(self._held, name, self._plan, self._dtype, self._kernels) if exists else None

    def _attention(self) -> Attention:
        whole = self._plan.layers[self._index].heads
        return Attention(
            plan=self._shard.attention_of(whole),
            qkv=self._joined("self_attn.", "q_proj", "k_proj", "v_proj"),
            output=self._summed("self_attn.o_proj"),
            head_norm=self._head_norm(),
            sinks=self._tensor("self_attn.sinks"),
            visibility=Visibility(Scores(whole.scale, whole.soft_cap or None), whole.window or None),
        )

    def _dense(self) -> Dense:
        dense = self._plan.layers[self._index].feed_forward
        assert isinstance(dense, DensePlan)  # noqa: S101
        names = ("gate_proj", "up_proj") if dense.is_gated else ("up_proj",)
        activated = activation_named(dense.activation, self._held.get("mlp.curve"))
        if dense.is_gated:
            activated = self._gated(dense.activation, activated)
        return Dense(self._joined("mlp.", *names), self._summed("mlp.down_proj"), activated)

    def _gated(self, name: ActivationName, activation: Activation) -> Inner:
        if self._kernels is None or name == "xielu":
            return gated_by(activation)
        return partial(self._kernels.gated, activation=name)

    def _experts(self) -> Experts:
        plan = self._plan.layers[self._index].feed_forward
        assert isinstance(plan, ExpertsPlan)  # noqa: S101
        router, bias = self._held["mlp.gate.weight"].float(), self._held.get("mlp.gate.bias")
        correction = self._held.get("mlp.gate.e_score_correction_bias")
        gate = self._tensor("mlp.shared_expert_gate.weight")
        inner = self._inner_of(plan)
        return Experts(
            Router(
                plan,
                lay_out(router, None if bias is None else bias.float(), self._kernels),
                None if correction is None else correction.float(),
            ),
            experts=self._chosen_experts(plan, inner),
            shared=self._expert("mlp.shared_expert", inner) if plan.shared_width else None,
            shared_gate=None if gate is None else lay_out(gate, None, self._kernels),
        )

    def _inner_of(self, plan: ExpertsPlan) -> Inner:
        if plan.swiglu_limit:
            return limited_swiglu(plan.swiglu_limit, plan.swiglu_alpha)
        return self._gated(plan.activation, activation_named(plan.activation))

    def _chosen_experts(self, plan: ExpertsPlan, inner: Inner) -> ListedExperts | DeviceExperts:
        names = [f"mlp.experts.{number}" for number in range(plan.num_experts)]
        if self._kernels is None or self._shard != WHOLE:
            return ListedExperts(tuple(self._expert(name, inner) for name in names))
        fused = [self._fused(f"{name}.", "gate_proj", "up_proj") for name in names]
        downs = [self._fused(f"{name}.", "down_proj") for name in names]
        return self._kernels.experts(_stacked(fused), _stacked(downs), inner)

    def _expert(self, name: str, inner: Inner) -> Expert:
        return Expert(self._joined(f"{name}.", "gate_proj", "up_proj"), self._summed(f"{name}.down_proj"), inner)

    def _tensor(self, name: str) -> Tensor | None:
        tensor = self._held.get(name)
        return None if tensor is None else tensor.to(self._dtype)

    def _in_pairs(self, name: str, tensor: Tensor) -> Tensor:
        return in_pairs(name, tensor, self._plan, self._index)

    def _joined(self, prefix: str, *names: str) -> Linear:
        """Return one fused Linear of projections that share their input. Query and key rows are interleaved."""
        return lay_out(*self._fused(prefix, *names), self._kernels)

    def _fused(self, prefix: str, *names: str) -> tuple[Tensor, Tensor | None]:
        weights = [self._in_pairs(name, self._held.pop(f"{prefix}{name}.weight").to(self._dtype)) for name in names]
        biases = [
            self._in_pairs(name, bias) for name in names if (bias := self._tensor(f"{prefix}{name}.bias")) is not None
        ]
        return torch.cat(weights), torch.cat(biases) if biases else None

    def _summed(self, name: str) -> Linear:
        """Return the projection to the hidden size. A rank has some of its inputs, and only rank 0 has the bias."""
        bias = self._tensor(f"{name}.bias") if self._shard.rank == 0 else None
        linear = lay_out(self._held.pop(f"{name}.weight").to(self._dtype), bias, self._kernels)
        return linear if self._shard == WHOLE else RowParallelLinear(linear)

    def _head_norm(self) -> EachHeadNorm | AllHeadsNorm | None:
        """Return the norm of queries and keys, whose weights are in the order of the projected heads."""
        plan = self._shard.attention_of(self._plan.layers[self._index].heads)
        if plan.head_norm == "none":
            return None
        epsilon, is_rms = self._plan.norm_epsilon, self._plan.norm_kind == "rms"
        by_kind: dict[str, list[Tensor | None]] = {}
        for kind in ("weight", "bias"):
            pair = [(name, self._tensor(f"self_attn.{name}.{kind}")) for name in ("q_norm", "k_norm")]
            by_kind[kind] = [None if each is None else self._in_pairs(name, each) for name, each in pair]
        if plan.head_norm == "whole":
            norms = [
                Norm(weight, bias, epsilon, is_rms)
                for weight, bias in zip(by_kind["weight"], by_kind["bias"], strict=True)
                if weight is not None
            ]
            return AllHeadsNorm(*norms)
        counts = (plan.num_heads, plan.num_kv_heads)
        by_head = {
            kind: [
                each.view(-1, plan.head_dim).expand(count, -1)
                for each, count in zip(pair, counts, strict=True)
                if each is not None
            ]
            for kind, pair in by_kind.items()
        }
        bias = torch.cat(by_head["bias"]) if by_head["bias"] else None
        return EachHeadNorm(torch.cat(by_head["weight"]), bias, epsilon, is_rms)
