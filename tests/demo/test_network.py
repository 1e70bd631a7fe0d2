"""The training network: the same function as transformers' Qwen3, documents apart, copying from the first step."""

from dataclasses import replace
from typing import Any

import pytest
import torch
from transformers import Qwen3Config, Qwen3ForCausalLM

from demo.initialise import initialise
from demo.muon import Muon, orthogonalise
from demo.network import Network, Shape
from demo.probe import repeated, second_half
from demo.weights import config

SMALL = Shape(vocab_size=300, num_hidden_layers=2, intermediate_size=64)


@pytest.fixture
def network() -> Network:
    """A small network with weights everywhere, also where training starts from zero."""
    network = Network(SMALL)
    initialise(network, copying=True, seed=3)
    generator = torch.Generator().manual_seed(4)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.add_(torch.randn(parameter.shape, generator=generator), alpha=0.02)
    return network


def test_network_equals_qwen3(network: Network) -> None:
    """The weights, moved into `Qwen3ForCausalLM` by name, give the same logits."""
    reference: Any = Qwen3ForCausalLM(Qwen3Config(**{**config(SMALL), "dtype": "float32"}))
    reference.load_state_dict(network.state_dict())
    token_ids = torch.randint(0, SMALL.vocab_size, (2, 40), generator=torch.Generator().manual_seed(5))
    with torch.no_grad():
        expected = reference(token_ids).logits.flatten(0, 1)
        actual = network(token_ids, torch.zeros_like(token_ids), torch.arange(80))
    torch.testing.assert_close(actual, expected, atol=1e-4, rtol=1e-4)


def test_network_keeps_documents_apart(network: Network) -> None:
    """A conversation's logits are the same alone and behind another one in a row."""
    generator = torch.Generator().manual_seed(6)
    first, second = (torch.randint(0, SMALL.vocab_size, (1, size), generator=generator) for size in (13, 20))
    documents = torch.tensor([[0] * 13 + [1] * 20])
    with torch.no_grad():
        together = network(torch.cat((first, second), dim=1), documents, torch.arange(13, 33))
        alone = network(second, torch.zeros_like(second), torch.arange(20))
    torch.testing.assert_close(together, alone, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize(("copying", "low", "high"), [(True, 0.9, 1.0), (False, 0.0, 0.1)])
def test_circuit_copies_before_training(copying: bool, low: float, high: float) -> None:  # noqa: FBT001  two starts
    """With the written circuit, repeated tokens are predicted; from noise they are not."""
    network = Network(Shape(num_hidden_layers=2))
    initialise(network, copying=copying)
    generator = torch.Generator().manual_seed(7)
    with torch.no_grad():
        logits, targets = second_half(network, repeated(8, 48, network.shape.vocab_size, generator))
    assert low <= (logits.argmax(-1) == targets).float().mean().item() <= high


def test_circuit_rejects_other_shapes() -> None:
    """A shape the circuit is not written for is named, not silently left as noise."""
    with pytest.raises(ValueError, match="hidden_size=128"):
        initialise(Network(replace(SMALL, hidden_size=128)), copying=True)


@pytest.mark.parametrize("size", [(64, 64), (64, 160), (160, 64)])
def test_orthogonalise_evens_singular_values(size: tuple[int, int]) -> None:
    """Singular values that differ a hundredfold come out alike, in the same directions."""
    generator = torch.Generator().manual_seed(8)
    left, _, right = torch.linalg.svd(torch.randn(1, *size, generator=generator), full_matrices=False)
    values = torch.logspace(0, -2, min(size))
    evened = orthogonalise(left @ torch.diag(values) @ right, steps=8)
    diagonal = torch.diagonal(left.mT @ evened @ right.mT, dim1=-2, dim2=-1)
    assert diagonal.min() > 0.5
    assert diagonal.max() < 1.3


def test_muon_steps_down() -> None:
    """On a quadratic bowl the loss falls to a small part of itself."""
    matrix = torch.nn.Parameter(torch.randn(16, 32, generator=torch.Generator().manual_seed(9)))
    optimiser = Muon([matrix], lr=0.2)
    losses = []
    for _ in range(60):
        loss = matrix.square().sum()
        losses.append(loss.item())
        optimiser.zero_grad()
        torch.autograd.backward(loss)
        optimiser.step()
    assert losses[-1] < 0.2 * losses[0]
