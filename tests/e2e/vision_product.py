"""A tiny random model that accepts images, with tokenizer, template and processor, and transformers' answers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import tokenizers
import torch
import transformers
from PIL import Image
from transformers import AutoProcessor, Gemma3Processor

from tests.engine.folders.vision_models import BEGIN, END, NUM_IMAGE_TOKENS, SOFT, image_processor, save_vision_model

VOCAB_SIZE = 280
NUM_TOKENS = 8
_NAMED = {
    0: "<pad>",
    1: "<eos>",
    2: "<bos>",
    BEGIN: "<start_of_image>",
    END: "<end_of_image>",
    SOFT: "<image_soft_token>",
}
_TURN, _TURN_END = "<start_of_turn>", "<end_of_turn>"
_TEMPLATE = """{{ bos_token }}{% for message in messages %}<start_of_turn>{{ message.role }}
{% if message.content is string %}{{ message.content }}{% else %}{% for part in message.content -%}
{% if part.type == 'image' %}<start_of_image>{% else %}{{ part.text }}{% endif %}{% endfor %}{% endif %}<end_of_turn>
{% endfor %}{% if add_generation_prompt %}<start_of_turn>model
{% endif %}"""


def save_vision_folder(folder: Path) -> None:
    """Save the model with its tokenizer, template and processor."""
    save_vision_model(folder, vocab_size=VOCAB_SIZE, max_positions=512)
    alphabet = iter(sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet()))
    named = {**_NAMED, 118: _TURN, 119: _TURN_END}
    vocabulary = {named.get(i) or next(alphabet): i for i in range(256 + len(named))}
    backend = tokenizers.Tokenizer(tokenizers.models.BPE(vocabulary, []))
    backend.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    backend.decoder = tokenizers.decoders.ByteLevel()
    backend.add_special_tokens(list(named.values()))
    own = transformers.PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]
        tokenizer_object=backend,
        bos_token="<bos>",  # noqa: S106  no password
        eos_token="<eos>",  # noqa: S106
        pad_token="<pad>",  # noqa: S106
        extra_special_tokens={"boi_token": _NAMED[BEGIN], "eoi_token": _NAMED[END], "image_token": _NAMED[SOFT]},
    )
    processor: Any = Gemma3Processor(
        image_processor(folder), own, chat_template=_TEMPLATE, image_seq_length=NUM_IMAGE_TOKENS
    )
    processor.save_pretrained(folder)


@torch.inference_mode()
def reference(folder: Path, *parts: str | Image.Image) -> tuple[list[int], list[int]]:
    """Return the prompt's tokens of a message of texts and images, and transformers' greedy answer."""
    processor: Any = AutoProcessor.from_pretrained(folder, backend="pil")  # type: ignore[no-untyped-call]
    model: Any = transformers.Gemma3ForConditionalGeneration.from_pretrained(folder)
    content = [{"type": "text", "text": p} if isinstance(p, str) else {"type": "image", "image": p} for p in parts]
    inputs = processor.apply_chat_template(
        [{"role": "user", "content": content}], tokenize=True, return_dict=True, return_tensors="pt",
        add_generation_prompt=True,
    )  # fmt: skip
    made = model.eval().generate(
        **inputs, max_new_tokens=NUM_TOKENS, do_sample=False, eos_token_id=None, pad_token_id=0
    )
    ids = inputs["input_ids"][0].tolist()
    return ids, made[0, len(ids) :].tolist()
