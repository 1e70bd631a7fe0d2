"""A checkpoint's image processing: the tokens of an image in a prompt, and its resized pixels."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from service.engine.tokens.tokenizer import Tokenizer
from service.generation.errors import ModelLoadError
from service.generation.prompts.image import ImageForm, SeenImage


class ImageProcessor:
    """A checkpoint's image processor, except for the normalisation of pixels, which the engine does by the same one."""

    def __init__(self, folder: Path, tokenizer: Tokenizer) -> None:
        """Raise ModelLoadError if the checkpoint's processor can't be loaded. Importing transformers takes a second."""
        from transformers import AutoConfig, AutoImageProcessor  # noqa: PLC0415  few models take images

        try:
            config = AutoConfig.from_pretrained(folder)
            self._processor: Any = AutoImageProcessor.from_pretrained(folder, backend="pil")  # type: ignore[no-untyped-call]
            self.form = _form(config, tokenizer)
        except Exception as error:  # many kinds, which callers would all handle alike
            raise ModelLoadError(f"{folder}: the image processor can't be loaded: {error}") from error

    def see(self, image: Image.Image) -> SeenImage:
        """Return an image as the model gets it. Call it on a worker thread."""
        options = {"do_rescale": False, "do_normalize": False, "return_tensors": "np"}
        pixels = np.ascontiguousarray(self._processor(images=image, **options)["pixel_values"][0], dtype=np.uint8)
        digest = hashlib.sha256(repr(pixels.shape).encode() + pixels.tobytes()).digest()
        return SeenImage(digest, pixels)


def _form(config: Any, tokenizer: Tokenizer) -> ImageForm:
    """Return Gemma 3's form of an image: as many soft tokens as the vision tower makes, between two other tokens."""
    texts = {token["id"]: token["content"] for token in json.loads(tokenizer.json)["added_tokens"]}
    begin, soft, end = (
        texts[index] for index in (config.boi_token_index, config.image_token_id, config.eoi_token_index)
    )
    shown = f"\n\n{begin}{soft * config.mm_tokens_per_image}{end}\n\n"
    return ImageForm(begin, shown, config.image_token_id, config.mm_tokens_per_image)
