"""Training in small: the loss falls, a run can be resumed, and nothing finished is overwritten."""

import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer

from demo import evaluate, train
from demo.network import Network, Shape
from demo.train import Plan, Training, learning_rate_factor
from demo.weights import TOKENIZER_FILES, export
from demo.worker_group import WorkerGroup, run_workers

MODEL = Path(__file__).parents[2] / "demo" / "model"
SMALL = Shape(num_hidden_layers=2, intermediate_size=128)


@pytest.mark.long
def test_training_lowers_the_loss(tokenizer: Tokenizer) -> None:
    """Less than a minute's training takes off a quarter of the loss and more."""
    training = Training(tokenizer, SMALL, Plan(steps=40, batch_tokens=1024, muon_lr=0.02, adam_lr=0.004))
    losses = list(training.losses())
    assert len(losses) == training.step == 40
    assert sum(losses[-10:]) < 0.75 * sum(losses[:10])


@pytest.mark.long
def test_training_resumes_where_it_stopped(tokenizer: Tokenizer) -> None:
    """State taken from a run and given to another one restores weights, optimisers and position in the stream."""
    plan = Plan(steps=3, batch_tokens=1024)
    first = Training(tokenizer, SMALL, plan)
    list(first.losses())
    second = Training(tokenizer, SMALL, Plan(steps=4, batch_tokens=1024))
    second.load_state_dict(first.state_dict())
    assert len(list(second.losses())) == 1
    assert second.packer.num_drawn > first.packer.num_drawn
    assert second.num_tokens == first.num_tokens + 1024


@pytest.mark.long
def test_training_in_bf16_lowers_the_loss(tokenizer: Tokenizer) -> None:
    """Matrix products of half the precision teach as well; the weights stay in float32."""
    training = Training(tokenizer, SMALL, Plan(steps=40, batch_tokens=1024, bf16=True))
    losses = list(training.losses())
    assert sum(losses[-10:]) < 0.75 * sum(losses[:10])
    assert {parameter.dtype for parameter in training.network.parameters()} == {torch.float32}


@pytest.mark.long
def test_training_starts_from_a_finished_model(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """With --start, a step whose rate is next to nothing leaves the bundled weights as they are."""
    monkeypatch.setattr(train, "HERE", tmp_path)
    folder = tmp_path / "model"
    folder.mkdir()
    for name in TOKENIZER_FILES:
        shutil.copy(MODEL / name, folder)
    argv = ["train", "--steps", "1", "--workers", "1", "--start", str(MODEL), "--into", str(folder)]
    monkeypatch.setattr(sys, "argv", [*argv, "--batch-tokens", "1024", "--muon-lr", "1e-9", "--adam-lr", "1e-9"])
    train.main()
    assert "1 steps, 1024 tokens" in capsys.readouterr().out
    before, after = load_file(MODEL / "model.safetensors"), load_file(folder / "model.safetensors")
    assert before.keys() == after.keys()
    assert all(torch.equal(before[name], after[name]) for name in before)


@pytest.mark.parametrize(
    ("change", "line"),
    [
        (lambda file: file.write_bytes(file.read_bytes()[:5000]), r"model\.safetensors is broken"),
        (
            lambda file: save_file({"lm_head.weight": torch.zeros(2, 3)}, file),
            r"model\.safetensors does not fit: lm_head\.weight is \[2, 3\], not \[2048, 256\]",
        ),
    ],
    ids=["truncated", "another architecture"],
)
def test_train_refuses_weights_that_do_not_fit(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, change: Callable[[Path], None], line: str
) -> None:
    """A broken file, or one of another architecture, is reported in one line before training starts."""
    start, into = tmp_path / "start", tmp_path / "into"
    shutil.copytree(MODEL, start)
    into.mkdir()
    shutil.copy(MODEL / "tokenizer.json", into)
    change(start / "model.safetensors")
    monkeypatch.setattr(sys, "argv", ["train", "--steps", "1", "--start", str(start), "--into", str(into)])
    with pytest.raises(SystemExit, match=line):
        train.main()


def test_learning_rate_rises_and_falls_to_zero() -> None:
    """The rate warms up, stays, and is zero at the end; two limits end a run at the earlier one."""
    assert learning_rate_factor(0, 0.0) < learning_rate_factor(50, 0.1) < learning_rate_factor(200, 0.2) == 1.0
    assert learning_rate_factor(5000, 0.9) < learning_rate_factor(5000, 0.6) < 1.0
    assert learning_rate_factor(5000, 1.0) == 0.0
    assert Plan(steps=10, minutes=1.0).progress(5, 45.0) == 0.75


def _sum_ranks(workers: WorkerGroup, folder: Path) -> None:
    network = torch.nn.Linear(1, 1, bias=False)
    network.weight.grad = torch.full((1, 1), float(workers.rank))
    workers.average_gradients(network)
    text = f"{network.weight.grad.item()} {workers.mean(workers.rank)}"
    (folder / str(workers.rank)).write_text(text)


@pytest.mark.long
def test_crew_averages(tmp_path: Path) -> None:
    """Two processes end a step with the same gradient, the mean of theirs, and agree on the time."""
    run_workers(2, _sum_ranks, tmp_path)
    assert [(tmp_path / str(rank)).read_text() for rank in range(2)] == ["0.5 0.5"] * 2


def test_train_refuses_to_overwrite(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Finished weights stay unless --force is given."""
    (tmp_path / "model.safetensors").write_bytes(b"finished")
    monkeypatch.setattr(sys, "argv", ["train", "--steps", "1", "--into", str(tmp_path)])
    with pytest.raises(SystemExit, match=r"model\.safetensors exists; --force overwrites it"):
        train.main()
    assert (tmp_path / "model.safetensors").read_bytes() == b"finished"


@pytest.mark.parametrize(
    ("argv", "line"),
    [
        (["--steps", "1"], r"tokenizer\.json is missing; run python -m demo\.train_tokenizer"),
        (["--steps", "1", "--start", "no-such-folder"], r"no-such-folder/model\.safetensors is missing"),
        (
            ["--steps", "1", "--resume", "--run", "no-such-run"],
            r"checkpoint\.pt is missing; there is nothing to resume",
        ),
    ],
)
def test_train_names_a_missing_file(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, argv: list[str], line: str
) -> None:
    """A missing file is reported in one line."""
    if len(argv) > 2:
        shutil.copy(MODEL / "tokenizer.json", tmp_path)
    monkeypatch.setattr(sys, "argv", ["train", "--into", str(tmp_path), *argv])
    with pytest.raises(SystemExit, match=line):
        train.main()


def test_evaluate_names_missing_weights(tmp_path: Path) -> None:
    """An evaluation without weights says which file it wants."""
    with pytest.raises(SystemExit, match=r"model\.safetensors is missing; run python -m demo\.train"):
        evaluate.Model.load(tmp_path)


def test_export_writes_a_whole_model_folder(tmp_path: Path) -> None:
    """The folder has configuration, tokenizer and weights, and a model loaded from it answers as the network does."""
    network = Network(SMALL)
    torch.nn.init.normal_(network.lm_head.weight, std=0.1)
    export(network, tmp_path, MODEL)
    names = {path.name for path in tmp_path.iterdir()}
    assert names == {*TOKENIZER_FILES, "config.json", "generation_config.json", "model.safetensors"}
    loaded = evaluate.Model.load(tmp_path).network
    weights = loaded.get_output_embeddings().weight
    torch.testing.assert_close(weights, network.lm_head.weight, atol=1e-2, rtol=1e-2)
