"""A tiny random Gemma 3 with its vision tower, images for it, and the tokens that transformers generates from them."""

from __future__ import annotations

import hashlib
from collections import abc
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from PIL import Image
from transformers import AutoImageProcessor, Gemma3ForConditionalGeneration
from transformers.models.gemma3.image_processing_pil_gemma3 import Gemma3ImageProcessorPil

from service.generation.prompts.image import PromptImage
from tests.engine.folders.tiny_models import tokens

VOCAB_SIZE = 120
MAX_POSITIONS = 256
NUM_IMAGE_TOKENS = 16
BEGIN, END, SOFT = 110, 111, 112  # of an image, and each of its tokens
WINDOW = 11  # tokens, of the layers with sliding-window attention; less than an image has
_SIZE = 32  # of the model's input, in pixels


def save_vision_model(folder: Path, *, vocab_size: int = VOCAB_SIZE, max_positions: int = MAX_POSITIONS) -> Any:
    """Save a random model with its image processor, and return it. Its weights let images change the answer."""
    torch.manual_seed(0)
    make: Any = transformers.Gemma3Config
    config = make(
        text_config={
            "vocab_size": vocab_size,
            "hidden_size": 64,
            "intermediate_size": 96,
            "num_hidden_layers": 3,
            "num_attention_heads": 4,
            "num_key_value_heads": 2,
            "head_dim": 16,
            "max_position_embeddings": max_positions,
            "sliding_window": WINDOW,
            "layer_types": ["sliding_attention", "full_attention", "sliding_attention"],
            "query_pre_attn_scalar": 16,
            "tie_word_embeddings": False,
        },
        vision_config={
            "hidden_size": 32,
            "intermediate_size": 48,
            "num_hidden_layers": 2,
            "num_attention_heads": 2,
            "image_size": _SIZE,
            "patch_size": 4,
            "vision_use_head": False,
        },
        mm_tokens_per_image=NUM_IMAGE_TOKENS,
        boi_token_index=BEGIN,
        eoi_token_index=END,
        image_token_index=SOFT,
        eos_token_id=1,
        tie_word_embeddings=False,  # otherwise most answers would repeat the last word of the prompt
    )
    model: Any = Gemma3ForConditionalGeneration(config)
    model.eval()
    for name, parameter in model.named_parameters():
        torch.nn.init.normal_(parameter, std=0.1 if "norm" in name else 0.2)
    model.save_pretrained(folder)
    processor: Any = Gemma3ImageProcessorPil(
        size={"height": _SIZE, "width": _SIZE}, image_mean=[0.5] * 3, image_std=[0.5] * 3
    )
    processor.save_pretrained(folder)
    return model


@cache
def image_processor(folder: Path) -> Any:
    """Return the folder's own image processor."""
    return AutoImageProcessor.from_pretrained(folder, backend="pil")  # type: ignore[no-untyped-call]


def picture(seed: int, size: tuple[int, int] = (50, 40)) -> Image.Image:
    """Return an image of random pixels."""
    drawn = np.random.default_rng(seed).integers(0, 256, (size[1], size[0], 3), dtype=np.uint8)
    return Image.fromarray(drawn)


def prompt_of(folder: Path, *parts: int | Image.Image) -> tuple[list[int], tuple[PromptImage, ...]]:
    """Return a prompt of random words and images in the given order: its tokens and its images.

    An integer among `parts` is a number of words.
    """
    processor = image_processor(folder)
    token_ids, images = [2], []
    for part in parts:
        if isinstance(part, int):
            token_ids += [3 + word % 100 for word in tokens(part, seed=part)]
            continue
        pixels = processor(images=part, do_rescale=False, do_normalize=False, return_tensors="np")["pixel_values"][0]
        start = len(token_ids) + 1
        token_ids += [BEGIN, *[SOFT] * NUM_IMAGE_TOKENS, END]
        digest = hashlib.sha256(pixels.tobytes()).digest()
        images.append(PromptImage(start, start + NUM_IMAGE_TOKENS, digest, pixels))
    return token_ids, tuple(images)


@torch.inference_mode()
def expected(model: Any, folder: Path, token_ids: abc.Sequence[int], parts: abc.Sequence[Any], count: int) -> list[int]:
    """Return the tokens that transformers' own `generate` adds to a prompt, greedily."""
    processor = image_processor(folder)
    seen = [part for part in parts if not isinstance(part, int)]
    ids = torch.tensor([list(token_ids)])
    pixels = {"pixel_values": processor(images=seen, return_tensors="pt")["pixel_values"]} if seen else {}
    made = model.generate(
        input_ids=ids,
        attention_mask=torch.ones_like(ids),
        token_type_ids=(ids == SOFT).int(),
        max_new_tokens=count,
        do_sample=False,
        eos_token_id=None,
        pad_token_id=0,
        **pixels,
    )
    answer: list[int] = made[0, len(token_ids) :].tolist()
    return answer
