"""Fixtures: the bundled tokenizer, as the scripts and as transformers load it."""

from pathlib import Path

import pytest
import torch
from tokenizers import Tokenizer
from transformers import AutoTokenizer, PreTrainedTokenizerBase

MODEL = Path(__file__).parents[2] / "demo" / "model"


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    """Tests leave the other cores alone."""
    torch.set_num_threads(1)


@pytest.fixture(scope="session")
def tokenizer() -> Tokenizer:
    """The bundled tokenizer as training loads it."""
    return Tokenizer.from_file(str(MODEL / "tokenizer.json"))


@pytest.fixture(scope="session")
def auto_tokenizer() -> PreTrainedTokenizerBase:
    """The bundled tokenizer as a server loads it, with its chat template."""
    loaded: PreTrainedTokenizerBase = AutoTokenizer.from_pretrained(MODEL)
    return loaded
