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
from service.generation.prompts.image import ImageForm, PreprocessedImage


class ImageProcessor:
    """A checkpoint's image processor, without the normalisation of pixels.

    The engine normalises them, with the parameters of the same processor, so that it is sent bytes rather than floats.
    """

    def __init__(self, folder: Path, tokenizer: Tokenizer) -> None:
        """Load the processor of the checkpoint in `folder`. Raise ModelLoadError if that fails.

        The import of transformers takes a second.
        """
        from transformers import AutoConfig, AutoImageProcessor  # noqa: PLC0415  few models take images

        try:
            config = AutoConfig.from_pretrained(folder, trust_remote_code=False)
            self._processor: Any = AutoImageProcessor.from_pretrained(  # type: ignore[no-untyped-call]
                folder, backend="pil", trust_remote_code=False
            )
            self.form = _image_form(config, tokenizer)
        except Exception as error:  # transformers raises many types, and all mean the same here
            raise ModelLoadError(f"{folder}: the image processor can't be loaded: {error}") from error

    def preprocess(self, image: Image.Image) -> PreprocessedImage:
        """Return an image resized for the model, with a hash of its pixels. Call it on a worker thread."""
        options = {"do_rescale": False, "do_normalize": False, "return_tensors": "np"}
        pixels = np.ascontiguousarray(self._processor(images=image, **options)["pixel_values"][0], dtype=np.uint8)
        digest = hashlib.sha256(repr(pixels.shape).encode() + pixels.tobytes()).digest()
        return PreprocessedImage(digest, pixels)


def _image_form(config: Any, tokenizer: Tokenizer) -> ImageForm:
    """Return the text and tokens that stand for an image in Gemma 3's prompts.

    They are one placeholder token per embedding of the vision tower, between a token that begins and one that ends the
    image.
    """
    texts = {token["id"]: token["content"] for token in json.loads(tokenizer.json)["added_tokens"]}
    begin, soft, end = (
        texts[index] for index in (config.boi_token_index, config.image_token_id, config.eoi_token_index)
    )
    shown = f"\n\n{begin}{soft * config.mm_tokens_per_image}{end}\n\n"
    return ImageForm(begin, shown, config.image_token_id, config.mm_tokens_per_image)
