"""Train the demo model from its tokenizer and the synthetic corpus.

`python -m demo.train --minutes 72 --force` trains for 72 minutes, mostly with a falling learning rate, and writes
`demo/model/`. Checkpoints (weights, optimisers, position in the stream) are stored in `demo/runs/RUN/`, which git
ignores; `--resume` continues from them. With `--steps` instead of `--minutes` the schedule does not depend on the
machine's speed. `--start FOLDER` starts from the weights of a finished model, with new optimisers.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer
from torch.nn import functional
from tqdm import tqdm  # type: ignore[import-untyped]

from demo.corpus.mixture import conversations
from demo.initialise import initialise
from demo.network import Network, Shape
from demo.optimiser import Optimisers
from demo.packing import Packer
from demo.weights import export, restore
from demo.worker_group import SINGLE, WorkerGroup, run_workers

HERE = Path(__file__).parent
WARM_UP_STEPS = 100
DECAY = 0.8
"""The last share of the run, in which the learning rate falls to zero."""


@dataclass(frozen=True)
class Plan:
    """The duration and the hyperparameters of a run."""

    steps: int | None = None
    minutes: float | None = None
    batch_tokens: int = 2048
    muon_lr: float = 0.02
    adam_lr: float = 0.004
    bf16: bool = False
    copying: bool = True
    seed: int = 0
    checkpoint_minutes: float = 4.0

    def progress(self, step: int, elapsed_s: float) -> float:
        """Return the completed share of the run, by steps or by time, whichever ends first."""
        by_steps = step / self.steps if self.steps else 0.0
        by_clock = elapsed_s / (60 * self.minutes) if self.minutes else 0.0
        return max(by_steps, by_clock)


def learning_rate_factor(step: int, progress: float) -> float:
    """Return the factor on the learning rate for a step: warm-up, stable, then linear to zero."""
    return max(0.0, min(1.0, (step + 1) / WARM_UP_STEPS, (1.0 - progress) / DECAY))


class Training:
    """The state of a training run: network, optimisers, stream and progress."""

    def __init__(self, tokenizer: Tokenizer, shape: Shape, plan: Plan, workers: WorkerGroup = SINGLE) -> None:
        self.plan = plan
        self._workers = workers
        self.network = Network(shape)
        initialise(self.network, copying=plan.copying, seed=plan.seed)
        dtype = torch.bfloat16 if plan.bf16 else torch.float32
        self.optimisers = Optimisers(self.network, muon_lr=plan.muon_lr, adam_lr=plan.adam_lr, dtype=dtype)
        self._tokenizer = tokenizer
        self.step = 0
        self.elapsed_s = 0.0
        self.num_tokens = 0
        self._start_stream(skip=0)

    def _start_stream(self, skip: int) -> None:
        stream = islice(conversations(self.plan.seed + self._workers.rank * 1_000_003), skip, None)
        self.packer = Packer(self._tokenizer, stream, batch_tokens=self.plan.batch_tokens)
        self.packer.num_drawn = skip

    def losses(self) -> Iterator[float]:
        """Take steps until the plan is complete. Yield the loss of each, in nats per token that is trained on."""
        began = time.monotonic() - self.elapsed_s
        while (progress := self._workers.mean(self.plan.progress(self.step, self.elapsed_s))) < 1.0:
            batch = self.packer.batch()
            with torch.autocast("cpu", torch.bfloat16, enabled=self.plan.bf16):
                logits = self.network(batch.token_ids, batch.documents, batch.positions)
            loss = functional.cross_entropy(logits.float(), batch.targets)
            torch.autograd.backward(loss)
            self._workers.average_gradients(self.network)
            self.optimisers.step(learning_rate_factor(self.step, progress))
            self.step += 1
            self.num_tokens += batch.token_ids.numel() * self._workers.size
            self.elapsed_s = time.monotonic() - began
            yield loss.item()

    def state_dict(self) -> dict[str, Any]:
        """Return the state from which `load_state_dict` continues."""
        return {
            "network": self.network.state_dict(),
            "optimisers": self.optimisers.state_dict(),
            "step": self.step,
            "elapsed_s": self.elapsed_s,
            "num_tokens": self.num_tokens,
            "num_drawn": self.packer.num_drawn,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue another run of the same plan. Conversations in unfinished rows are lost."""
        self.network.load_state_dict(state["network"])
        self.optimisers.load_state_dict(state["optimisers"])
        self.step, self.elapsed_s, self.num_tokens = state["step"], state["elapsed_s"], state["num_tokens"]
        self._start_stream(skip=state["num_drawn"])


def save(training: Training, folder: Path, model: Path) -> None:
    """Write a checkpoint atomically, and the weights as a model folder for inspection."""
    folder.mkdir(parents=True, exist_ok=True)
    partial = folder / "checkpoint.partial"
    torch.save(training.state_dict(), partial)
    partial.replace(folder / "checkpoint.pt")
    export(training.network, folder / "model", model)


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    length = parser.add_mutually_exclusive_group(required=True)
    length.add_argument("--minutes", type=float, help="minutes to train, including the decay")
    length.add_argument("--steps", type=int, help="number of steps to train, including the decay")
    parser.add_argument("--run", default="main", help="name of the folder under demo/runs for checkpoints")
    parser.add_argument("--into", type=Path, default=HERE / "model", help="model folder; its tokenizer is used")
    parser.add_argument("--workers", type=int, default=2, help="processes of one thread each that share every step")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--batch-tokens", type=int, default=Plan.batch_tokens)
    parser.add_argument("--muon-lr", type=float, default=Plan.muon_lr)
    parser.add_argument("--adam-lr", type=float, default=Plan.adam_lr)
    parser.add_argument("--bf16", action="store_true", help="matrix products in bf16; needs a CPU that is fast at them")
    parser.add_argument(
        "--no-copying", action="store_true", help="start from random weights instead of the copying circuit"
    )
    beginning = parser.add_mutually_exclusive_group()
    beginning.add_argument("--start", type=Path, help="model folder from whose weights a new run starts")
    beginning.add_argument("--resume", action="store_true", help="continue from the run's checkpoint")
    parser.add_argument("--force", action="store_true", help="overwrite finished weights")
    return parser.parse_args(arguments)


def shape(folder: Path) -> Shape:
    """Return the shape of a network for the tokenizer in `folder`."""
    return Shape(vocab_size=Tokenizer.from_file(str(folder / "tokenizer.json")).get_vocab_size())


def main() -> None:
    options = parse()
    finished, tokenizer_file = options.into / "model.safetensors", options.into / "tokenizer.json"
    folder = HERE / "runs" / options.run
    if finished.exists() and not options.force:
        sys.exit(f"{finished} exists; --force overwrites it")
    if not tokenizer_file.is_file():
        sys.exit(f"{tokenizer_file} is missing; run python -m demo.train_tokenizer")
    if options.resume and not (folder / "checkpoint.pt").is_file():
        sys.exit(f"{folder / 'checkpoint.pt'} is missing; there is nothing to resume")
    if options.start:
        try:
            restore(Network(shape(options.into)), options.start / "model.safetensors")
        except ValueError as error:
            sys.exit(str(error))
    if options.workers == 1:
        run(SINGLE, options)
    else:
        run_workers(options.workers, run, options)


def run(workers: WorkerGroup, options: argparse.Namespace) -> None:
    """Run one worker's part of the training. The first worker writes the files."""
    torch.set_num_threads(1)
    plan = Plan(
        steps=options.steps, minutes=options.minutes, batch_tokens=options.batch_tokens, muon_lr=options.muon_lr,
        adam_lr=options.adam_lr, bf16=options.bf16, copying=not options.no_copying, seed=options.seed,
    )  # fmt: skip
    folder = HERE / "runs" / options.run
    tokenizer = Tokenizer.from_file(str(options.into / "tokenizer.json"))
    training = Training(tokenizer, shape(options.into), plan, workers)
    if options.start:
        restore(training.network, options.start / "model.safetensors")
    if options.resume:
        training.load_state_dict(torch.load(folder / "checkpoint.pt"))
    if workers.rank:
        for _ in training.losses():
            pass
        return
    began_s, began_tokens = training.elapsed_s, training.num_tokens
    saved_s, mean = began_s, 0.0
    with tqdm(total=100, unit="%", disable=not sys.stderr.isatty()) as bar:
        for loss in training.losses():
            mean = 0.98 * mean + 0.02 * loss if mean else loss
            bar.update(100 * plan.progress(training.step, training.elapsed_s) - bar.n)
            if training.step % 50 == 0:
                speed = (training.num_tokens - began_tokens) / (training.elapsed_s - began_s)
                minutes = training.elapsed_s / 60
                tqdm.write(f"step {training.step}  loss {mean:.4f}  {minutes:.1f} min  {speed:.0f} tokens/s")
                sys.stdout.flush()
            if training.elapsed_s - saved_s > 60 * plan.checkpoint_minutes:
                save(training, folder, options.into)
                saved_s = training.elapsed_s
    save(training, folder, options.into)
    export(training.network, options.into, options.into)
    minutes = training.elapsed_s / 60
    print(f"{options.into}: {training.step} steps, {training.num_tokens} tokens, {minutes:.1f} minutes")


if __name__ == "__main__":
    main()
