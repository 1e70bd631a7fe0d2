"""A cross-encoder: a transformers model with a head of one number, which scores a pair of texts.

All architectures of AutoModelForSequenceClassification that take padded token ids are supported.
"""

from __future__ import annotations

import inspect
from typing import Any

import torch
from torch import Tensor
from transformers import AutoModelForSequenceClassification

from service.engine.models.checkpoint.encoders.pair_files import PairFiles
from service.engine.models.encoders.encoder import from_folder, max_positions_of, trial_token
from service.engine.models.encoders.pooling import pool
from service.generation.errors import ModelLoadError


class CrossEncoder:
    """A model that scores pairs, one padded batch at a time, before any activation."""

    num_dimensions = 1  # a score

    def __init__(self, model: Any, *, has_segments: bool) -> None:
        """Score one token as a test. Raise ModelLoadError if the result is not one number."""
        self._model = model.eval()
        self._pad_id = model.config.pad_token_id or 0
        self.device: torch.device = model.device
        takes_types = "token_type_ids" in inspect.signature(model.forward).parameters
        self._has_segments = has_segments and takes_types and (getattr(model.config, "type_vocab_size", 0) or 0) > 1
        # Decoder heads find the last token by the padding id, which may occur in the text, so the body is run instead.
        self._body = getattr(model, model.base_model_prefix) if hasattr(model, "score") else None
        name = model.config.model_type
        try:
            found = self.encode(torch.tensor([[trial_token(model.config)]]), torch.tensor([1]))
        except Exception as error:  # any error of the model's code
            raise ModelLoadError(f"the architecture {name} is not supported: a trial step failed: {error}") from error
        if found.shape != (1, 1):
            raise ModelLoadError(
                f"the architecture {name} is not supported: it returns the shape {list(found.shape)}, not a score"
            )

    @property
    def max_positions(self) -> int | None:
        """The number of tokens that the model has positions for, or None if its positions are unlimited."""
        return max_positions_of(self._model)

    @torch.inference_mode()
    def encode(self, token_ids: Tensor, lengths: Tensor, second_starts: Tensor | None = None) -> Tensor:
        """Return float32 scores [pairs, 1] of int64 `token_ids` [pairs, longest], padded at their ends."""
        token_ids, lengths = token_ids.to(self.device), lengths.to(self.device)
        positions = torch.arange(token_ids.shape[1], device=self.device)
        is_token = positions < lengths[:, None]
        inputs = {
            "input_ids": token_ids.masked_fill(~is_token, self._pad_id),
            "attention_mask": is_token.long(),
        }
        if self._has_segments and second_starts is not None:
            starts = second_starts.to(self.device)[:, None]
            inputs["token_type_ids"] = ((starts > 0) & (positions >= starts) & is_token).long()
        if self._body is None:
            logits: Tensor = self._model(**inputs).logits
            return logits.float()
        states = pool(self._body(**inputs).last_hidden_state, lengths, "lasttoken")
        scores: Tensor = self._model.score(states.to(self._model.dtype))
        return scores.float()


def load_cross_encoder(config: Any, files: PairFiles, dtype: str, device: str) -> CrossEncoder:
    """Load the model of `files.body`, described by `config`. Raise ModelLoadError if it is not supported."""
    model = from_folder(AutoModelForSequenceClassification, files.body, config, dtype)
    return CrossEncoder(model.to(device), has_segments=files.has_segments)
