"""Describe a generating model from its files, without loading its weights."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from service.engine.interface.cache_group import ONE_GROUP, max_blocks
from service.engine.interface.config import EngineConfig
from service.engine.interface.description import ComputeDtype, GeneratorDescription
from service.engine.loading.model_info import eos_token_ids_of, model_info
from service.engine.loading.model_plan import plan_model


def plan_generator(
    model: str, config: EngineConfig, *, compute_dtype: ComputeDtype, device: str, **of_load: Any
) -> GeneratorDescription:
    """Return what `load_generator` will report of `model` if its cache holds a sequence of maximum length.

    `of_load` are the arguments that matter only to the load. Raise ModelLoadError if a file is missing or unusable.
    """
    del of_load
    plan = plan_model(model, config, compute_dtype, device)
    max_model_len, block_size = plan.spec.max_positions, plan.spec.block_size
    planned = replace(config, block_size=block_size, max_model_len=max_model_len, max_adapters=config.max_adapters or 0)
    enough = max_blocks(ONE_GROUP, max_model_len, config.max_batch_tokens, planned.tokens_per_block)
    return GeneratorDescription(
        config=replace(planned, num_blocks=config.num_blocks or enough),
        info=model_info(plan, planned),
        vocab_size=plan.tokens.vocab_size,
        eos_token_ids=eos_token_ids_of(plan.folder, plan.spec.config),
    )
