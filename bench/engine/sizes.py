"""Print the memory of well-known models' shapes: weights, and the cache by context length.

Run as `python -m bench.engine.sizes`. No model is loaded: sizes are computed from the shapes, the cache's by the
engine's own `CacheShape`. Sizes are in GiB and for bfloat16; the cache is that of one sequence of the given context.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from service.engine.models.attention.kv_cache import CacheShape

GIB = 2**30
CONTEXTS = (4096, 32768, 131072)


@dataclass(frozen=True)
class Shape:
    """A model's dimensions from its config.json; `parameters` in billions."""

    name: str
    parameters: float
    num_layers: int
    num_kv_heads: int
    head_dim: int

    def cache_bytes(self) -> int:
        """Return the cache bytes of one token."""
        shape = CacheShape(self.num_layers, self.num_kv_heads, self.head_dim, self.head_dim, torch.bfloat16)
        return shape.bytes_per_slot


SHAPES = (
    Shape("Qwen2.5 0.5B", 0.494, 24, 2, 64),
    Shape("Qwen2.5 7B", 7.62, 28, 4, 128),
    Shape("Llama 3.1 8B", 8.03, 32, 8, 128),
    Shape("Qwen2.5 32B", 32.8, 64, 8, 128),
    Shape("Llama 3.1 70B", 70.6, 80, 8, 128),
)


def main() -> None:
    head = " | ".join(f"{context:,}" for context in CONTEXTS)
    print(f"| model | weights | KiB per token | {head} |")
    print("|---|" + "--:|" * (2 + len(CONTEXTS)))
    for shape in SHAPES:
        weights = shape.parameters * 1e9 * torch.bfloat16.itemsize / GIB
        each = shape.cache_bytes()
        caches = " | ".join(f"{context * each / GIB:.2f}" for context in CONTEXTS)
        print(f"| {shape.name} | {weights:.1f} | {each / 1024:.0f} | {caches} |")


if __name__ == "__main__":
    main()
