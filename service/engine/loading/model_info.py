"""The properties of a model that clients see, and the tokens that end its texts."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any, Final

from service.engine.interface.config import EngineConfig
from service.engine.interface.description import ModelInfo
from service.engine.loading.model_plan import ModelPlan
from service.engine.loading.model_source import architecture_of, fingerprint
from service.engine.models.checkpoint.text_part import text_config
from service.engine.models.selection.backends import weight_type_of
from service.generation.errors import ModelLoadError

# Files of a model that, in addition to its weights, affect the tokens that a request gets.
_FINGERPRINTED: Final = (
    "config.json",
    "generation_config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "chat_template.jinja",
)

_log = logging.getLogger(__name__)


def model_info(plan: ModelPlan, config: EngineConfig) -> ModelInfo:
    """Return the facts that clients see. The fingerprint covers files, and how the backend computes."""
    spec = plan.spec
    weight_type = weight_type_of(spec, plan.backend)
    arithmetic = f"{plan.backend.name} {plan.backend.arithmetic(spec)}"
    if spec.cache_dtype != spec.dtype:
        arithmetic += f", {spec.cache_dtype} cache"
    if config.tensor_parallel > 1:
        arithmetic += f" {config.tensor_parallel} ranks"
    return ModelInfo(
        architecture=architecture_of(spec.config),
        max_model_len=spec.max_positions,
        vocab_size=text_config(spec.config).vocab_size,
        dtype=weight_type,
        device=spec.device,
        num_parameters=spec.checkpoint.num_parameters,
        is_invariant=plan.backend.variance_reason(spec) is None,
        takes_images=plan.backend.takes_images,
        fingerprint=fingerprint(
            spec.checkpoint,
            weight_type,
            *(plan.folder / name for name in _FINGERPRINTED if (plan.folder / name).is_file()),
            backend=arithmetic,
        ),
    )


def eos_token_ids_of(folder: Path, model_config: Any) -> frozenset[int]:
    """Return the end-of-text ids from generation_config.json, or from config.json if it has none.

    Raise ModelLoadError if none of them is in the vocabulary.
    """
    ids = getattr(model_config, "eos_token_id", None)
    if ids is None:
        ids = getattr(text_config(model_config), "eos_token_id", None)
    if (folder / "generation_config.json").is_file():
        try:
            eos = json.loads((folder / "generation_config.json").read_text(encoding="utf-8")).get("eos_token_id")
        except (OSError, ValueError, AttributeError, RecursionError) as error:
            raise ModelLoadError(f"{folder / 'generation_config.json'} can't be used: {error}") from error
        ids = eos if eos is not None else ids
    return _in_vocabulary(ids, text_config(model_config).vocab_size, folder)


def _in_vocabulary(given: Any, vocab_size: int, folder: Path) -> frozenset[int]:
    """Return the ids that the model has, with a warning for others. Raise ModelLoadError if none is left."""
    ids = [] if given is None else given if isinstance(given, list | tuple) else [given]
    known = frozenset(each for each in ids if type(each) is int and 0 <= each < vocab_size)
    if len(known) < len(frozenset(map(repr, ids))):
        if not known:
            raise ModelLoadError(f"{folder}: eos_token_id must be from 0 to {vocab_size - 1}, not {given}")
        _log.warning("%s: eos_token_id is %s; ids beyond 0 to %d are ignored", folder, given, vocab_size - 1)
    return known
