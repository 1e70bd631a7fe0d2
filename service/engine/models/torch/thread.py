"""Settings that torch keeps per thread; other engines of the process have their own threads."""

from __future__ import annotations

import torch


def prepare_thread(num_threads: int | None) -> None:
    """Set up the calling thread to compute; `num_threads` None leaves torch's own number."""
    # Numbers below 1e-38, of which softmax makes many, cost 10 to 50 times the others.
    torch.set_flush_denormal(True)
    if num_threads is not None:
        torch.set_num_threads(num_threads)
