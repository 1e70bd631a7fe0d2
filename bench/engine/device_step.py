"""Measure steps of the torch decoder on a CUDA device: decodes, prompts, whole engine steps, and transformers' model.

Run as `python -m bench.engine.device_step [--shapes 0.5b 8b 32b moe] [--streams 1 16 64 256]
[--contexts 128 2048]`. The weights are random and made on the device. `bandwidth` is the time in which the device reads
the weights and contexts once, divided by that of a step; `peak` is the rate of a prompt's products, divided by that of
one large product. `invariant` has the kernels of `engine.batch_invariant`. `engine` adds scheduling, greedy sampling
and reports to a decode; `in turn` does so without computing decodes ahead.
"""

from __future__ import annotations

import argparse
import gc
import math
import statistics
import time
from array import array
from collections.abc import Callable
from typing import Any

import torch
from transformers import AutoModelForCausalLM, PreTrainedConfig, Qwen3MoeConfig

from bench.serving.floor import read_on_device
from bench.shapes import DEMO, LLAMA_3_1_8B, QWEN2_5_0_5B, QWEN2_5_32B
from service.engine.core.batch import Batch, BatchEntry, lay_out
from service.engine.core.blocks.block_pool import BlockPool
from service.engine.core.engine_core import EngineCore
from service.engine.core.scheduler import Scheduler
from service.engine.core.sequences.sequence import SequenceGroup
from service.engine.interface.config import EngineConfig
from service.engine.models.attention.accelerator import Accelerator
from service.engine.models.attention.decode_graphs import GraphLimits
from service.engine.models.cuda.device import CudaRecorder
from service.engine.models.cuda.kernels import TritonKernels
from service.engine.models.plans.families.table import FAMILIES, plan_of
from service.engine.models.plans.sources import Shape
from service.engine.models.torch.decoder import Decoder
from service.engine.models.torch.load_decoder import build_decoder
from service.engine.models.torch.step_tensors import all_tensor_shapes
from service.engine.runner.ahead_runner import AheadRunner
from service.engine.sampler.torch_sampler import TorchSampler
from service.engine.tokens.tokenizer import FastTokenizer
from service.generation.requests.parameters import SamplingParams, StopParams
from service.generation.requests.request import GenerationRequest

DEVICE = torch.device("cuda")
BLOCK_SIZE = 64
PROMPT = 2_048
NUM_STEPS = 20
MOST_TOKENS = 1 << 18  # in the cache
ANSWER = 96  # tokens of an engine's answers
SHAPES: dict[str, PreTrainedConfig] = {
    "0.5b": QWEN2_5_0_5B,
    "8b": LLAMA_3_1_8B,
    "32b": QWEN2_5_32B,
    "moe": Qwen3MoeConfig(
        vocab_size=65_536,
        hidden_size=2_048,
        moe_intermediate_size=768,
        num_hidden_layers=12,
        num_attention_heads=32,
        num_key_value_heads=4,
        head_dim=128,  # type: ignore[call-arg]  # no parameter, but the model reads it
        num_experts=128,
        num_experts_per_tok=8,
        norm_topk_prob=True,
        max_position_embeddings=32_768,
    ),
}


def random_tensors(shapes: dict[str, Shape]) -> dict[str, torch.Tensor]:
    """Return weights whose products stay finite."""
    return {
        name: torch.ones(shape, dtype=torch.bfloat16, device=DEVICE)
        if "norm" in name
        else torch.randn(shape, dtype=torch.bfloat16, device=DEVICE) * 0.02
        for name, shape in shapes.items()
    }


def made(
    config: PreTrainedConfig, streams: list[int], contexts: list[int], *, is_invariant: bool
) -> tuple[Decoder, AheadRunner]:
    """Return a decoder, and its runner, which has recorded decodes."""
    longest = max(*contexts, PROMPT) + 2 * ANSWER + BLOCK_SIZE
    kernels = TritonKernels(longest, is_invariant=is_invariant)
    accelerator = Accelerator(kernels, CudaRecorder(DEVICE), GraphLimits(max(streams), longest, 4 << 30))
    tensors = FAMILIES[config.model_type].tensors
    plan = plan_of(config)
    decoder = build_decoder(plan, tensors, random_tensors, torch.bfloat16, longest, accelerator=accelerator)
    most_tokens = max(min(context * max(streams), MOST_TOKENS) for context in (*contexts, PROMPT))
    num_blocks = most_tokens // BLOCK_SIZE + 3 * max(streams)
    return decoder, AheadRunner(decoder, TorchSampler(), num_blocks, BLOCK_SIZE)


def batch_of(num_sequences: int, num_new: int, context: int) -> Batch:
    """Return the last `num_new` tokens of sequences with `context` tokens each."""
    blocks = math.ceil(context / BLOCK_SIZE)
    entries = [
        BatchEntry(
            [5 + index % 1_000] * num_new,
            context - num_new,
            [array("i", range(index * blocks, (index + 1) * blocks))],
            1,
        )
        for index in range(num_sequences)
    ]
    return lay_out(entries, BLOCK_SIZE)


def seconds(work: Callable[[], Any], repeats: int = NUM_STEPS) -> float:
    """Return the mean seconds of calls that are enqueued one after another."""
    for _ in range(2):
        work()
    torch.cuda.synchronize()
    began = time.perf_counter()
    for _ in range(repeats):
        work()
    torch.cuda.synchronize()
    return (time.perf_counter() - began) / repeats


def forward_seconds(decoder: Decoder, batch: Batch, repeats: int) -> float:
    """Return the seconds of a step without sampling."""
    return seconds(lambda: decoder.forward(batch), repeats)


def engine_seconds(runner: AheadRunner, num_streams: int, context: int, *, looks_ahead: bool) -> float:
    """Return the seconds of a step of the engine, with its report, in which most streams decode."""
    length = context + ANSWER + BLOCK_SIZE
    config = EngineConfig(
        block_size=BLOCK_SIZE,
        num_blocks=runner.num_blocks,
        max_model_len=length,
        max_queue_wait_s=math.inf,
        max_batch_sequences=num_streams,
        max_batch_tokens=8_192,
    )
    scheduler = Scheduler(config, BlockPool(runner.num_blocks, BLOCK_SIZE))
    scheduler.lookahead.is_on = looks_ahead
    core = EngineCore(scheduler, runner)
    tokenizer = FastTokenizer.from_folder(DEMO)
    for index in range(num_streams):
        ids = [(7 * index + position) % 1_000 + 5 for position in range(context)]
        stopping = StopParams(max_tokens=ANSWER, ignore_eos=True)
        group = SequenceGroup(
            GenerationRequest(str(index), ids, SamplingParams(temperature=0), stopping),
            tokenizer,
            serial=index,
            seed=index,
            arrived=0.0,
            eos_token_ids=(),
            max_model_len=length,
            cache_salt="",
        )
        core.add(group)
    times: dict[int, list[float]] = {}
    while core.has_work:
        began = time.perf_counter()
        core.step()
        num_outputs = len(core.report().outputs)
        times.setdefault(num_outputs, []).append(time.perf_counter() - began)
    return statistics.median(times[max(times)])


def peer_seconds(model: Any, num_streams: int, context: int) -> float:
    """Return the seconds of a decode of transformers' model."""
    ids = torch.randint(5, 1_000, (num_streams, context), device=DEVICE)
    with torch.inference_mode():
        cache = model(ids, use_cache=True, logits_to_keep=1).past_key_values
        token = ids[:, :1]
        return seconds(lambda: model(token, past_key_values=cache, use_cache=True), 10)


def products_per_second() -> float:
    """Return the operations per second of one large product."""
    square = torch.randn(8_192, 8_192, dtype=torch.bfloat16, device=DEVICE)
    return float(2 * 8_192**3 / seconds(lambda: square @ square))


def free() -> None:
    gc.collect()
    torch.cuda.empty_cache()


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--shapes", nargs="+", default=list(SHAPES), choices=list(SHAPES))
    parser.add_argument("--streams", nargs="+", type=int, default=[1, 16, 64, 256])
    parser.add_argument("--contexts", nargs="+", type=int, default=[128, 2_048])
    parser.add_argument("--without-peer", action="store_true")
    options = parser.parse_args()
    peak = products_per_second()
    bytes_per_second = (4 << 30) / read_on_device(4 << 30)
    print(f"{torch.cuda.get_device_name()}: {peak / 1e12:.0f} TFLOP/s, reads {bytes_per_second / 1e12:.2f} TB/s")
    print("| shape | streams | context | ms | invariant | engine | in turn | transformers | bandwidth |")
    print("|---|--:|--:|--:|--:|--:|--:|--:|--:|", flush=True)
    for shape in options.shapes:
        measure(shape, options.streams, options.contexts, peak, bytes_per_second, has_peer=not options.without_peer)
        free()


def weight_bytes(config: PreTrainedConfig) -> int:
    """Return the bytes of the weights that a step reads: all but the embedding, unless it is the head, too.

    With experts, these are the weights of all experts, of which a small step reads a part.
    """
    plan = plan_of(config)
    return 2 * sum(
        math.prod(shape)
        for name, shape in all_tensor_shapes(plan).items()
        if plan.is_tied or name != "model.embed_tokens.weight"
    )


def measure(
    shape: str, streams: list[int], contexts: list[int], peak: float, bytes_per_second: float, *, has_peer: bool
) -> None:
    """Print the rows of a shape."""
    config = SHAPES[shape]
    cells = [(context, number) for context in contexts for number in streams if context * number <= MOST_TOKENS]
    table: dict[tuple[int, int], list[float]] = {cell: [] for cell in cells}
    prompts: list[float] = []
    bytes_of_weights, bytes_per_token = weight_bytes(config), 0
    for is_invariant in (False, True):
        decoder, runner = made(config, streams, contexts, is_invariant=is_invariant)
        bytes_per_token = decoder.bytes_per_block(1)
        for context, number in cells:
            table[context, number].append(forward_seconds(decoder, batch_of(number, 1, context), NUM_STEPS))
        prompts.append(forward_seconds(decoder, batch_of(4, PROMPT, PROMPT), 3))
        if not is_invariant:
            engine, in_turn = (
                {cell: engine_seconds(runner, cell[1], cell[0], looks_ahead=looks_ahead) for cell in cells}
                for looks_ahead in (True, False)
            )
        del decoder, runner
        free()
    if has_peer:
        with torch.device(DEVICE), torch.inference_mode():
            made_by_class: Any = AutoModelForCausalLM
            model = made_by_class.from_config(config, dtype=torch.bfloat16).eval()
        peer = {cell: peer_seconds(model, cell[1], cell[0]) for cell in cells}
        ids = torch.randint(5, 1_000, (4, PROMPT), device=DEVICE)
        with torch.inference_mode():
            prompts.append(seconds(lambda: model(ids, logits_to_keep=1), 3))
        del model
    for (context, number), (library, invariant) in table.items():
        floor = (bytes_of_weights + bytes_per_token * context * number) / bytes_per_second
        own = (library, invariant, engine[context, number], in_turn[context, number])
        theirs = f"{1e3 * peer[context, number]:.2f}" if has_peer else ""
        cells_of_row = [
            shape,
            number,
            context,
            *(f"{1e3 * each:.2f}" for each in own),
            theirs,
            f"{floor / library:.2f}",
        ]
        print("|", " | ".join(map(str, cells_of_row)), "|", flush=True)
    operations = 2 * (bytes_of_weights / 2) * 4 * PROMPT
    rates = ", ".join(f"{4 * PROMPT / each:.0f} tokens/s ({operations / each / peak:.2f} of peak)" for each in prompts)
    print(f"{shape}: 4 prompts of {PROMPT}, ours, invariant, transformers: {rates}", flush=True)


if __name__ == "__main__":
    main()
