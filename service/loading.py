"""From a model's settings to a model that can be served.

Owns the choice between the kinds of models, which is the folder's, and for those that generate the joining of engine,
pipelines and description. Runs on a worker thread at start; importing it imports torch.
"""

from __future__ import annotations

import logging
from typing import Any

from google.protobuf import timestamp_pb2
from sluice.v1 import model_pb2

from service.config import ChatSettings, ModelSettings
from service.engine.build import BuiltEngine, build_engine
from service.engine.engine import StepObserver
from service.engine.model_source import find_folder
from service.engine.models.sentence_files import is_encoder
from service.generation.errors import ModelLoadError
from service.loading_encoder import load_encoder
from service.pipeline.chat import ChatPipeline
from service.pipeline.completion import CompletionPipeline
from service.pipeline.reasoning import ReasoningMarkers
from service.pipeline.template import ChatTemplate, NoChatTemplate
from service.pipeline.thinking import ReasoningBudgets
from service.pipeline.tool_syntax import SYNTAXES
from service.pipeline.watermark import WatermarkDetector
from service.servicers.catalog import Served, ServedModel

_log = logging.getLogger(__name__)


def load_model(settings: ModelSettings, observer: StepObserver) -> Served:
    """Load the model; its engine is not yet started. `settings` has every value filled in. Raises ModelLoadError.

    Whether it generates or makes vectors is what its folder says.
    """
    folder = find_folder(settings.path)
    if is_encoder(folder):
        return load_encoder(settings, folder, observer)
    assert settings.dtype and settings.device and settings.cache_share and settings.engine  # noqa: S101, PT018
    built = build_engine(
        str(folder),
        settings.engine,
        compute_dtype=settings.dtype,
        device=settings.device,
        cache_share=settings.cache_share,
        observer=observer,
    )
    if not built.eos_token_ids:  # an answer would have no end, and a grammar none to allow
        raise ModelLoadError(f"{built.folder}: neither generation_config.json nor config.json has an eos_token_id")
    chat = _chat_pipeline(settings, built)
    detector = WatermarkDetector(built.tokenizer, built.config.watermark)
    completion = CompletionPipeline(built.tokenizer, built.engine.max_model_len, built.eos_token_ids, chat)
    return ServedModel(_description(settings, built, chat), built.engine, chat, completion, detector, built.tokenizer)


def _chat_pipeline(settings: ModelSettings, built: BuiltEngine) -> ChatPipeline | None:
    """None for a model without a chat template, which completes prompts only."""
    try:
        template = ChatTemplate.from_folder(built.folder)
    except NoChatTemplate:
        _log.info("no chat template: the model completes prompts only", extra={"fields": {"model": settings.name}})
        return None
    return ChatPipeline(
        settings.name,
        template,
        built.tokenizer,
        built.engine.max_model_len,
        built.eos_token_ids,
        **_chat_options(settings.chat),
    )


def _chat_options(chat: ChatSettings) -> dict[str, Any]:
    """The settings as the pipeline's own keywords."""
    return {
        "default_system_prompt": chat.system_prompt,
        "markers": ReasoningMarkers(*chat.reasoning_markers) if chat.reasoning_markers else None,
        "syntax": SYNTAXES[chat.tool_syntax] if chat.tool_syntax else None,
        "budgets": ReasoningBudgets(
            chat.reasoning_budget_low, chat.reasoning_budget_medium, chat.reasoning_budget_high
        ),
    }


def _description(settings: ModelSettings, built: BuiltEngine, chat: ChatPipeline | None) -> model_pb2.Model:
    created = timestamp_pb2.Timestamp()
    created.GetCurrentTime()
    return model_pb2.Model(
        name=settings.name,
        version=settings.version,
        created=created,
        tasks=[model_pb2.TASK_CHAT, model_pb2.TASK_COMPLETION] if chat else [model_pb2.TASK_COMPLETION],
        architecture=built.info.architecture,
        max_model_len=built.engine.max_model_len,
        vocab_size=built.info.vocab_size,
        num_parameters=built.info.num_parameters,
        dtype=built.info.dtype,
        system_fingerprint=built.info.fingerprint,
        supports_tools=chat is not None and chat.supports_tools,
        supports_reasoning=chat is not None and chat.supports_reasoning,
    )
