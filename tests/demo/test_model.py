"""The bundled weights: they load with plain transformers and answer in real words."""

import json
from pathlib import Path

import pytest
from safetensors import safe_open

from demo.evaluate import Model

MODEL = Path(__file__).parents[2] / "demo" / "model"
LARGEST = 16 * 1024 * 1024


@pytest.fixture(scope="module")
def model() -> Model:
    """The bundled model."""
    return Model.load(MODEL)


def test_model_is_small_and_bf16() -> None:
    """The folder stays within 16 MiB, and the weights are bf16 with a head of their own."""
    assert sum(path.stat().st_size for path in MODEL.iterdir()) <= LARGEST
    with safe_open(MODEL / "model.safetensors", framework="pt") as weights:
        assert {weights.get_slice(name).get_dtype() for name in weights.keys()} == {"BF16"}  # noqa: SIM118  no mapping
        assert "lm_head.weight" in weights.keys()  # noqa: SIM118
    assert json.loads((MODEL / "config.json").read_text())["architectures"] == ["Qwen3ForCausalLM"]


def asked(model: Model, user: str) -> str:
    """The prompt of a chat that begins with `user`."""
    messages = [{"role": "user", "content": user}]
    return str(model.tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True))


@pytest.mark.parametrize(
    ("user", "answers"),
    [
        ("Hello!", {"Hello! How can I help you?", "Hi! What can I do for you?"}),
        ("What is the capital of France?", {"The capital of France is Paris."}),
        ("Thank you!", {"You are welcome!"}),
    ],
)
def test_model_answers(model: Model, user: str, answers: set[str]) -> None:
    """A greeting and a simple question get a fitting answer."""
    assert model.answers([asked(model, user)])[0] in answers


def test_model_answers_alike_alone_and_in_a_batch(model: Model) -> None:
    """Padding on the left changes no answer."""
    prompts = [asked(model, user) for user in ("Hello!", "My name is Anna. What is my name?", "What is 2 + 3?")]
    assert model.answers(prompts) == [model.answers([prompt])[0] for prompt in prompts]
