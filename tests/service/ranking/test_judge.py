"""A generating model as judge: its scores are those of transformers' logits, on every backend."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import tokenizers
import torch
import transformers

from service.engine.interface.config import EngineConfig
from service.generation.caller import ANONYMOUS
from service.generation.errors import InvalidRequest, ModelLoadError, PromptTooLong
from service.generation.requests.ranking import TextsToRank
from service.generation.stats import EngineStats
from service.loading.model import load_model
from service.ranking import ranker
from service.registry.description import Task
from service.registry.models import ServedGenerator
from service.settings.model_settings import ModelSettings

torch.set_num_threads(1)

SIZES: dict[str, Any] = {
    "vocab_size": 101,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "max_position_embeddings": 64,
    "eos_token_id": 2,
    "tie_word_embeddings": False,
}
TEMPLATE = "<s> w20 {instruction} w21 {query} w22 {document} <e>"
QUERY, DOCUMENTS = "w30 w31", ["w40", "w41 w42 w43", "<e> w44", "w45 w46", *["w50 w51"] * 40]


class Nobody:
    """An observer that ignores the steps."""

    def on_step(self, stats: EngineStats) -> None:
        """Do nothing."""


def save(folder: Path) -> Any:
    """Save a random model whose tokens are words; `yes` is 98, `no` 99. Return the model."""
    torch.manual_seed(0)
    model: Any = transformers.Qwen3ForCausalLM(transformers.Qwen3Config(**SIZES))
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, mean=float(parameter.dim() == 1), std=0.2)
    model.eval().save_pretrained(folder)
    words = {f"w{i}": i for i in range(3, 97)} | {"unk": 0, "yes": 98, "no": 99}
    tokenizer = tokenizers.Tokenizer(tokenizers.models.WordLevel(words, unk_token="unk"))  # noqa: S106
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
    tokenizer.add_special_tokens(["<s>", "<e>"])
    tokenizer.save(str(folder / "tokenizer.json"))
    return model


def load(folder: Path, backend: str = "torch", **rank: Any) -> ServedGenerator:
    engine = EngineConfig(worker="thread", backend=backend, num_blocks=200)
    settings = ModelSettings(
        name="judge", path=str(folder), dtype="float32", device="cpu", cache_share=1,
        engine=vars_of(engine), rank={"prompt": TEMPLATE, "instruction": "w10 w11", **rank},
    )  # fmt: skip
    model = load_model(settings, Nobody())
    assert isinstance(model, ServedGenerator)
    return model


def vars_of(config: EngineConfig) -> Any:
    return {"worker": config.worker, "backend": config.backend, "num_blocks": config.num_blocks}


def texts(**fields: Any) -> TextsToRank:
    return TextsToRank(**{"model": "judge", "queries": [QUERY], "documents": DOCUMENTS, **fields})


async def judged(model: ServedGenerator, asked: TextsToRank) -> tuple[list[float], int]:
    assert model.ranker is not None
    async with model.engine as engine:  # type: ignore[attr-defined]  # it is an engine client
        del engine
        prepared = await model.ranker.prepare(asked, "r", None, ANONYMOUS)
        return list((await prepared.run()).scores), prepared.num_tokens


@torch.inference_mode()
def reference(model: Any, prompt: list[int]) -> float:
    logits = model(input_ids=torch.tensor([prompt])).logits[0, -1]
    return float(logits[98] - logits[99])


def prompt_of(document: str, instruction: str = "w10 w11") -> list[int]:
    """Return the prompt's tokens, made by hand; a control token that a document spells is plain text."""
    words = f"w20 {instruction} w21 {QUERY} w22 {document}".split()
    spelled = {"<e>": 0}
    return [100 - 3, *(spelled.get(word, int(word[1:]) if word[0] == "w" else 0) for word in words), 100]


@pytest.mark.parametrize("backend", ["native", "torch", "transformers"])
async def test_scores_are_the_difference_of_two_logits(backend: str, tmp_path: Path) -> None:
    """Scores match within 1e-4 for more documents than one batch; all tokens of all prompts are counted."""
    reference_model = save(tmp_path)
    model = load(tmp_path, backend)
    assert Task.RANK in model.description.tasks
    scores, num_tokens = await judged(model, texts())
    prompts = [prompt_of(document) for document in DOCUMENTS]
    start = model.tokenizer.encode("<s>")
    end = model.tokenizer.encode("<e>")
    prompts = [[*start, *prompt[1:-1], *end] for prompt in prompts]
    assert scores == pytest.approx([reference(reference_model, prompt) for prompt in prompts], abs=1e-4)
    assert num_tokens == sum(map(len, prompts))
    assert len({round(score, 3) for score in scores}) > 3


async def test_model_that_would_end_its_text_is_judged(tmp_path: Path) -> None:
    """If an end of text is likelier than both words, the scores don't change."""
    model = save(tmp_path)
    tokenizer = load(tmp_path).tokenizer
    prompt = [*tokenizer.encode("<s>"), *prompt_of("w40")[1:-1], *tokenizer.encode("<e>")]
    with torch.inference_mode():
        likeliest = int(model(input_ids=torch.tensor([prompt])).logits[0, -1].argmax())
    for name in ("config.json", "generation_config.json"):
        said = json.loads((tmp_path / name).read_text())
        (tmp_path / name).write_text(json.dumps(said | {"eos_token_id": likeliest}))
    scores, _ = await judged(load(tmp_path), texts(documents=["w40"]))
    assert scores == pytest.approx([reference(model, prompt)], abs=1e-4)


async def test_clients_instruction_replaces_the_settings(tmp_path: Path) -> None:
    """The client's instruction is part of the prompt."""
    save(tmp_path)
    own, _ = await judged(load(tmp_path), texts(documents=["w40"]))
    other, _ = await judged(load(tmp_path), texts(documents=["w40"], instruction="w12 w13"))
    assert abs(own[0] - other[0]) > 1e-3


@pytest.mark.parametrize(
    ("fields", "kind", "field"),
    [
        ({"documents": ["w40", "w41 " * 70]}, PromptTooLong, "documents[1]"),
        ({"queries": ["w41 " * 70], "truncates": True}, PromptTooLong, "query"),
        ({"priority": -1}, InvalidRequest, "serving.priority"),
    ],
)
async def test_invalid_request_is_rejected(
    fields: dict[str, Any], kind: type[InvalidRequest], field: str, tmp_path: Path
) -> None:
    """The error names the field."""
    save(tmp_path)
    with pytest.raises(kind) as rejection:
        await judged(load(tmp_path), texts(**fields))
    assert rejection.value.field == field


async def test_long_documents_are_truncated_at_the_end(tmp_path: Path) -> None:
    """Documents are limited by the model's length and by `max_document_tokens`; the template's end stays."""
    save(tmp_path)
    long = " ".join(f"w{30 + i % 60}" for i in range(100))
    start = " ".join(long.split()[:54])  # 63 tokens in total
    cut, _ = await judged(load(tmp_path), texts(documents=[long, start], truncates=True))
    assert cut[0] == pytest.approx(cut[1], abs=1e-6)
    few, _ = await judged(load(tmp_path), texts(documents=[long, "w30 w31"], max_document_tokens=2))
    assert few[0] == pytest.approx(few[1], abs=1e-6)


async def test_tokens_of_one_request_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The limit holds however many documents the tokens are in."""
    save(tmp_path)
    monkeypatch.setattr(ranker, "MAX_TOKENS", 100)
    with pytest.raises(InvalidRequest, match="more than 100 tokens in all"):
        await judged(load(tmp_path), texts())


def test_words_that_are_several_tokens_are_rejected(tmp_path: Path) -> None:
    """They are rejected at the load with the setting's name, as is a prompt without its texts."""
    save(tmp_path)
    with pytest.raises(ModelLoadError, match=r"rank\.yes_word: 'yes no' is 2 tokens, not one"):
        load(tmp_path, yes_word="yes no")
    with pytest.raises(ValueError, match=r"prompt: must have \{document\} once"):
        load(tmp_path, prompt="{query}")
