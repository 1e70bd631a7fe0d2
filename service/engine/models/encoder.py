"""An encoder: transformers' own modules and what makes a vector of their states.

Any architecture that AutoModel knows is served if it takes padded token ids and gives one state a token.
"""

from __future__ import annotations

import logging
from typing import Any

import torch
from torch import Tensor
from torch.nn import Embedding
from torch.nn.functional import normalize
from transformers import AutoModel
from transformers.utils.logging import disable_progress_bar

from service.engine.models.pooling import pool
from service.engine.models.sentence_files import SentenceFiles
from service.generation.errors import ModelLoadError

_UNUSED = "pooler."  # some models have one on top; vectors are made of the states beneath it

_log = logging.getLogger(__name__)


class Encoder:
    """Texts to vectors, one padded batch at a time."""

    def __init__(self, model: Any, files: SentenceFiles) -> None:
        """Encode a token to see what comes out. Raises ModelLoadError if that isn't a state."""
        self._model = model.eval()
        self._files = files
        self._pad_id = model.config.pad_token_id or 0
        self.device: torch.device = model.device
        name = model.config.model_type
        try:
            self.num_dimensions = self.encode(torch.tensor([[self._pad_id + 1]]), torch.tensor([1])).shape[1]
        except Exception as error:  # whatever foreign code can't do with this call
            raise ModelLoadError(f"the architecture {name} can't be served: a trial step failed: {error}") from error

    @property
    def max_positions(self) -> int | None:
        """Tokens that it has positions for; None if its positions have no end of their own."""
        longest: int | None = getattr(self._model.config, "max_position_embeddings", None)
        for name, module in self._model.named_modules():
            # RoBERTa and its kin count positions from the one after the padding's.
            if name.endswith("position_embeddings") and isinstance(module, Embedding):
                return longest if module.padding_idx is None else module.num_embeddings - module.padding_idx - 1
        return longest

    @torch.inference_mode()
    def encode(self, token_ids: Tensor, lengths: Tensor) -> Tensor:
        """The vectors [texts, dimensions], float32, of int64 `token_ids` [texts, longest], padded at their ends."""
        token_ids, lengths = token_ids.to(self.device), lengths.to(self.device)
        is_token = torch.arange(token_ids.shape[1], device=self.device) < lengths[:, None]
        states = self._model(
            input_ids=token_ids.masked_fill(~is_token, self._pad_id), attention_mask=is_token.long()
        ).last_hidden_state
        vectors = pool(states, lengths, self._files.pooling)
        return normalize(vectors, dim=1) if self._files.normalises else vectors


def load_encoder(config: Any, files: SentenceFiles, dtype: str, device: str) -> Encoder:
    """Load the model of `files.body`, which `config` describes. ModelLoadError if it can't be served."""
    if getattr(config, "quantization_config", None) is not None:
        raise ModelLoadError(f"{files.body}: quantised weights can't be served")
    if getattr(config, "is_encoder_decoder", False):
        raise ModelLoadError(f"{files.body}: a model of an encoder and a decoder can't be served")
    disable_progress_bar()  # type: ignore[no-untyped-call]  # the load shows its own
    try:
        loaded: Any = AutoModel.from_pretrained(
            files.body, config=config, dtype=getattr(torch, dtype), output_loading_info=True
        )
        model, report = loaded
    except Exception as error:  # many kinds, none of which a caller could act upon differently
        raise ModelLoadError(f"{files.body} can't be loaded: {error}") from error
    for kind in ("missing_keys", "mismatched_keys"):
        if faults := sorted(name for name in map(str, report[kind]) if not name.startswith(_UNUSED)):
            raise ModelLoadError(f"{files.body}: {kind.replace('_keys', '')} tensors: {faults[:5]}")
    if report["unexpected_keys"]:  # such as the head of a model that was trained to fill in words
        _log.info("%s: not used: %s", files.body, ", ".join(sorted(report["unexpected_keys"])[:5]))
    if hasattr(model, "pooler"):
        model.pooler = None
    return Encoder(model.to(device), files)
