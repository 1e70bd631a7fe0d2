"""Per-thread settings of torch. Other engines of the process have their own threads."""

from __future__ import annotations

import torch


def prepare_thread(num_threads: int | None) -> None:
    """Configure the calling thread; with `num_threads` None torch chooses the number."""
    # Denormal numbers (below 1e-38), which softmax often produces, are 10 to 50 times slower.
    torch.set_flush_denormal(True)
    if num_threads is not None:
        torch.set_num_threads(num_threads)
