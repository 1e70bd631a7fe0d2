"""The induction probe: predict the second half of rows that repeat random tokens.

Run it before any other training: an accuracy below 0.9 means that the learning rate, the initial weights or the code
is wrong.
`python -m demo.probe --copying` starts from the copying circuit; without the option, from random weights.
"""

from __future__ import annotations

import argparse
import time

import torch
from torch import Tensor
from torch.nn import functional

from demo.initialise import initialise
from demo.network import Network, Shape
from demo.optimiser import Optimisers


def repeated(rows: int, length: int, vocab_size: int, generator: torch.Generator) -> Tensor:
    """Return rows [rows, 2 * length] of distinct random tokens followed by their repetition."""
    half = torch.rand(rows, vocab_size, generator=generator).argsort(dim=1)[:, :length]
    return torch.cat((half, half), dim=1)


def second_half(network: Network, token_ids: Tensor) -> tuple[Tensor, Tensor]:
    """Return the logits and targets of the positions whose next token is a repetition."""
    rows, total = token_ids.shape
    wanted = torch.zeros(rows, total, dtype=torch.bool)
    wanted[:, total // 2 : -1] = True
    positions = wanted.flatten().nonzero()[:, 0]
    documents = torch.arange(rows)[:, None].expand(rows, total)
    return network(token_ids, documents, positions), token_ids.flatten()[positions + 1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--copying", action="store_true", help="start from the copying circuit")
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--muon-lr", type=float, default=0.01)
    parser.add_argument("--adam-lr", type=float, default=0.002)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    generator = torch.Generator().manual_seed(1)
    network = Network(Shape())
    initialise(network, copying=options.copying)
    optimisers = Optimisers(network, muon_lr=options.muon_lr, adam_lr=options.adam_lr)
    began = time.monotonic()
    for step in range(options.steps + 1):
        token_ids = repeated(16, 48, network.shape.vocab_size, generator)
        logits, targets = second_half(network, token_ids)
        loss = functional.cross_entropy(logits, targets)
        if step % 25 == 0:
            accuracy = (logits.argmax(-1) == targets).float().mean().item()
            seconds = time.monotonic() - began
            print(f"step {step}  loss {loss.item():.3f}  accuracy {accuracy:.3f}  {seconds:.0f} s", flush=True)
        torch.autograd.backward(loss)
        optimisers.step(min(1.0, (step + 1) / 50))


if __name__ == "__main__":
    main()
