"""The decoder of a multimodal checkpoint is served as a text model, whatever its tensors' prefix."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from safetensors.torch import load_file, save_file

from service.engine.models.checkpoint.families.family_config import FamilyConfig
from service.engine.models.checkpoint.model_config import DecoderConfig, read_model_config, read_transformers_config
from service.engine.models.checkpoint.text_part import text_part, text_part_of
from service.engine.models.plans.families.table import plan_of
from tests.engine.folders.packing import fp8_tensor
from tests.models.comparison import CONFIG, compare
from tests.models.made import made
from tests.models.shapes import small

# Architectures by the backend of their decoder; a common decoder does not need transformers.
SERVED = {
    "aya_vision": "native",
    "gemma3": "native",
    "gemma4": "native",
    "lfm2_vl": "native",
    "llava": "native",
    "mistral3": "native",
    "qwen2_5_vl": "native",
    "qwen2_vl": "native",
    "qwen3_vl": "native",
    "qwen3_vl_moe": "transformers",
    "smolvlm": "native",
}
# Tensor names in published files, and their current names in transformers.
_BEFORE = (
    ("model.language_model.", "language_model.model."),
    ("lm_head.", "language_model.lm_head."),
    ("model.vision_tower.", "vision_tower."),
    ("model.multi_modal_projector.", "multi_modal_projector."),
)


@pytest.mark.slow
@pytest.mark.parametrize("kind", SERVED)
async def test_text_is_answered_as_by_the_whole_model(kind: str, tmp_path: Path) -> None:
    """Tokens and logprobs of concurrent requests are those of transformers' whole model."""
    outcome = await compare(made(kind, tmp_path), tmp_path)
    assert (outcome.backend, outcome.message) == (SERVED[kind], "")


async def test_the_decoder_of_ministral_3_is_native(tmp_path: Path) -> None:
    """A decoder whose configuration only transformers reads is served without the rest of the model."""
    model = made("mistral3", tmp_path, text_config=small("ministral3").to_dict())
    outcome = await compare(model, tmp_path)
    assert (outcome.backend, outcome.message) == ("native", "")


@pytest.mark.parametrize("kind", ["qwen2_5_vl", "qwen3_vl"])
async def test_a_tied_head_is_the_one_of_the_whole(kind: str, tmp_path: Path) -> None:
    """Tying is set by the whole model's configuration; the decoder's part is ignored."""
    model = made(kind, tmp_path, tie_word_embeddings=True)
    assert (await compare(model, tmp_path)).message == ""


async def test_the_decoder_of_gemma_3n_is_native(tmp_path: Path) -> None:
    """The folder of a whole model, which transformers makes only with timm, is made from a decoder's."""
    model = made("gemma3n_text", tmp_path)
    file, said = tmp_path / "model.safetensors", tmp_path / "config.json"
    tensors = load_file(file)
    renamed = {name.replace("model.", "model.language_model.", 1): tensor for name, tensor in tensors.items()}
    save_file(renamed | {"model.vision_tower.weight": tensors["model.norm.weight"].clone()}, file, {"format": "pt"})
    text = json.loads(said.read_text())
    whole = {"model_type": "gemma3n", "text_config": text, "eos_token_id": 1, "tie_word_embeddings": True}
    said.write_text(json.dumps(whole))
    outcome = await compare(model, tmp_path)
    assert (outcome.backend, outcome.message) == ("native", "")


async def test_gemma_4_with_experts_is_native(tmp_path: Path) -> None:
    """Its layers have experts in addition to a dense feed-forward part."""
    sizes = {"num_experts": 6, "top_k_experts": 3, "moe_intermediate_size": 40}
    outcome = await compare(made("gemma4_text", tmp_path, enable_moe_block=True, **sizes), tmp_path)
    assert (outcome.backend, outcome.message) == ("native", "")


async def test_names_of_older_files_are_known(tmp_path: Path) -> None:
    """Mistral's and LLaVA's published files have their decoder under `language_model.model.`."""
    model = made("mistral3", tmp_path)
    file = tmp_path / "model.safetensors"
    tensors = load_file(file)
    for today, before in _BEFORE:
        tensors = {
            before + name.removeprefix(today) if name.startswith(today) else name: tensor
            for name, tensor in tensors.items()
        }
    save_file(tensors, file, {"format": "pt"})
    assert "language_model.model.norm.weight" in tensors
    outcome = await compare(model, tmp_path)
    assert (outcome.backend, outcome.message) == ("native", "")


async def test_packed_text_with_an_image_tower(tmp_path: Path) -> None:
    """Ministral 3's published files have FP8 weights with static scales in the decoder only."""
    model = made("mistral3", tmp_path)
    file, said = tmp_path / "model.safetensors", tmp_path / "config.json"
    tensors = load_file(file)
    for name in [name for name in tensors if name.startswith("model.language_model.layers.")]:
        if tensors[name].ndim == 2:
            packed = fp8_tensor(tensors.pop(name).float())
            tensors |= {f"{name.removesuffix('weight')}{end}": tensor for end, tensor in packed.tensors.items()}
            model.get_parameter(name).data = packed.values
    save_file(tensors, file, {"format": "pt"})
    skipped = ["model.vision_tower", "model.multi_modal_projector", "lm_head"]
    scheme = {"quant_method": "fp8", "activation_scheme": "static", "weight_block_size": None}
    packing = {"quantization_config": scheme | {"modules_to_not_convert": skipped}}
    said.write_text(json.dumps(json.loads(said.read_text()) | packing))
    outcome = await compare(model, tmp_path)
    assert (outcome.backend, outcome.message) == ("native", "")


async def test_transformers_can_be_forced(tmp_path: Path) -> None:
    """With transformers' modules the whole model is loaded, and its text answers are equal."""
    outcome = await compare(made("qwen2_5_vl", tmp_path), tmp_path, replace(CONFIG, backend="transformers"))
    assert (outcome.backend, outcome.message) == ("transformers", "")


def test_the_decoder_is_read_without_transformers(tmp_path: Path) -> None:
    """A flat published configuration and one with a text part have all values that a common decoder needs."""
    sizes = {
        "vocab_size": 101,
        "hidden_size": 64,
        "intermediate_size": 96,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "max_position_embeddings": 64,
        "rms_norm_eps": 1e-6,
        "hidden_act": "silu",
        "rope_theta": 1e6,
    }
    flat = sizes | {
        "model_type": "qwen2_5_vl",
        "architectures": ["Qwen2_5_VLForConditionalGeneration"],
        "eos_token_id": 7,
        "tie_word_embeddings": True,
        "rope_scaling": {"type": "mrope", "mrope_section": [2, 3, 3]},
        "vision_config": {"hidden_size": 32},
    }
    nested = {
        "model_type": "mistral3",
        "tie_word_embeddings": False,
        "text_config": sizes | {"model_type": "mistral", "eos_token_id": 7, "head_dim": 16, "sliding_window": None},
    }
    for said, kind, is_tied in ((flat, "qwen2", True), (nested, "mistral", False)):
        (tmp_path / "config.json").write_text(json.dumps(said))
        config = read_model_config(tmp_path)
        assert isinstance(config, DecoderConfig)
        assert (config.model_type, config.eos_token_id, config.tie_word_embeddings) == (kind, 7, is_tied)
        assert config.rope_parameters == {"rope_theta": 1e6, "rope_type": "default"}
        assert config.is_part
    assert config.architectures == ["mistral"]


AXES = {"rope_type": "default", "rope_theta": 1e7, "partial_rotary_factor": 0.25}


@pytest.mark.parametrize("whole", [{"tie_word_embeddings": False}, {"tie_word_embeddings": True}, {}])
@pytest.mark.parametrize("kind", ["qwen3_5", "qwen3_5_moe"])
def test_the_decoder_of_qwen_3_5_is_read_as_by_transformers(kind: str, whole: dict[str, bool], tmp_path: Path) -> None:
    """A published configuration, which leaves out some of the text's fields, gives transformers' plan."""
    text = {
        "model_type": f"{kind}_text",
        "vocab_size": 101,
        "hidden_size": 64,
        "num_hidden_layers": 8,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "max_position_embeddings": 256,
        "full_attention_interval": 4,
        "eos_token_id": 7,
        "tie_word_embeddings": True,  # ignored
        "mtp_num_hidden_layers": 1,
        "rope_parameters": AXES | {"mrope_section": [11, 11, 10], "mrope_interleaved": True},
    } | ({"intermediate_size": 96} if kind == "qwen3_5" else {"num_experts": 4, "num_experts_per_tok": 2})
    said = {"model_type": kind, "architectures": [f"{kind}ForConditionalGeneration"], "text_config": text, **whole}
    (tmp_path / "config.json").write_text(json.dumps(said))
    found, expected = read_model_config(tmp_path), text_part_of(read_transformers_config(tmp_path))
    assert isinstance(found, FamilyConfig)
    assert found.is_part
    assert plan_of(found) == plan_of(expected)
    for name in ("eos_token_id", "architectures", "model_type", "max_position_embeddings", "tie_word_embeddings"):
        assert getattr(found, name) == getattr(expected, name), name


def test_other_models_have_no_part_for_text() -> None:
    """A plain decoder has no text part, and untested models are not guessed to have one."""
    assert text_part({"model_type": "llama", "text_config": {"model_type": "llama"}}) is None
    assert text_part({"model_type": "some_vl", "text_config": {"model_type": "llama"}}) is None
