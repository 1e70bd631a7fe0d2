"""The backend of multimodal models of transformers, whose vision tower computes the embeddings of image tokens."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

import numpy as np
from torch import Tensor

from service.engine.core.batch import Batch
from service.engine.models.attention.inputs import Inputs
from service.engine.models.modules.modules_backend import ModulesBackend
from service.generation.prompts.image import PromptImage

_NUM_KEPT = 16  # images with cached embeddings, for several choices and for preempted prompts
_NUM_TOGETHER = 4  # images per pass of the vision tower


class VisionBackend(ModulesBackend):
    """A Backend that runs an image-text model of transformers, whose decoder was loaded with `ATTENTION`."""

    def __init__(self, model: Any, processor: Any) -> None:
        """`processor` is the model's image processor; it normalizes pixels of images that are already resized."""
        super().__init__(model)
        self._processor = processor
        self._embedded: OrderedDict[bytes, Tensor] = OrderedDict()

    def _token_inputs(self, batch: Batch, inputs: Inputs) -> dict[str, Tensor]:
        """Return the embeddings of the batch's tokens, including those of its images."""
        if not batch.images:
            return super()._token_inputs(batch, inputs)
        embeddings = self._model.get_input_embeddings()(inputs.token_ids)
        found = self._embeddings([rows.image for rows in batch.images])
        for rows in batch.images:
            of_image = found[rows.image.digest][rows.offset : rows.offset + rows.num_tokens]
            embeddings[rows.row : rows.row + rows.num_tokens] = of_image.to(embeddings.dtype)
        return {"inputs_embeds": embeddings[None]}

    def _embeddings(self, images: Sequence[PromptImage]) -> dict[bytes, Tensor]:
        """Return the embeddings of each image, [tokens, hidden size], by its digest."""
        by_digest = {image.digest: image for image in images}
        found = {digest: self._embedded[digest] for digest in by_digest if digest in self._embedded}
        new = [image for digest, image in by_digest.items() if digest not in found]
        for first in range(0, len(new), _NUM_TOGETHER):
            together = new[first : first + _NUM_TOGETHER]
            found.update(zip((image.digest for image in together), self._embed(together), strict=True))
        for digest in by_digest:
            self._embedded[digest] = found[digest]
            self._embedded.move_to_end(digest)
        while len(self._embedded) > _NUM_KEPT:
            self._embedded.popitem(last=False)
        return found

    def _embed(self, images: Sequence[PromptImage]) -> Tensor:
        """Compute the embeddings of images, [images, tokens, hidden size]."""
        scaled = self._processor(
            images=[np.asarray(image.pixels) for image in images],
            input_data_format="channels_first",
            do_resize=False,
            return_tensors="pt",
        )["pixel_values"]
        pixels = scaled.to(self._model.device, self._model.dtype)
        embedded: Tensor = self._model.get_image_features(pixel_values=pixels, return_dict=True).pooler_output
        return embedded
