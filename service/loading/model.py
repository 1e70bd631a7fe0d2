"""Load a model from its settings, on a worker thread. The folder determines whether it generates, embeds or ranks."""

from __future__ import annotations

import logging
import time
from pathlib import Path
from typing import TYPE_CHECKING

from service.contract.parts.parameters import RANGES
from service.engine.building.engines import BuiltEngine, build_engine
from service.engine.interface.port import StepObserver
from service.engine.loading.model_folder import find_folder
from service.engine.models.checkpoint.encoders.pair_files import is_cross_encoder, unsupported_head
from service.engine.models.checkpoint.encoders.sentence_files import is_encoder
from service.engine.models.checkpoint.text_part import open_checkpoint
from service.engine.tokens.tokenizer import FastTokenizer
from service.generation.errors import ModelLoadError
from service.generation.formats.constraint import ReasoningMarkers
from service.generation.prompts.conversation import ReasoningEffort
from service.generation.prompts.image import ImageForm
from service.loading.encoder import load_cross_encoder, load_encoder
from service.loading.failures import explained_failures
from service.output.families.tool_families import SYNTAXES
from service.output.tokens.watermark import WatermarkDetector
from service.prompting.chat_model import ChatModel
from service.prompting.preparation import Preparation
from service.prompting.sampling_defaults import read_sampling_defaults
from service.prompts.chats.reasoning_effort import DefaultEffort, ReasoningBudgets
from service.prompts.pairs.templated_pairs import TemplatedPairs
from service.prompts.preparing.workers import WorkerLimits, Workers
from service.prompts.templates.template import ChatTemplate, NoChatTemplate
from service.prompts.tokens.control_tokens import ControlTokens
from service.ranking.judge import JudgeRanker
from service.registry.description import Modality, ModelDescription, Task
from service.registry.model_files import ModelFiles
from service.registry.models import ServedGenerator, ServedModel
from service.registry.weights import Weights
from service.settings.image_settings import ImageSettings
from service.settings.model_settings import ChatSettings, ModelSettings

if TYPE_CHECKING:
    from service.images.reader import ImageReader

_THREAD_WAIT_S = 2.0  # for a thread that prepares prompts, unless the settings limit the queue wait

_log = logging.getLogger(__name__)


def load_model(settings: ModelSettings, observer: StepObserver, *, is_asleep: bool = False) -> ServedModel:
    """Load a model, or with `is_asleep` all but its weights; its engine is not started.

    `settings` must have every value filled in. Raise ModelLoadError for every failure.
    """
    with explained_failures(settings.path):
        return _load(settings, observer, is_asleep=is_asleep)


def _load(settings: ModelSettings, observer: StepObserver, *, is_asleep: bool) -> ServedModel:
    folder = find_folder(settings.path)
    if is_cross_encoder(folder):
        return load_cross_encoder(settings, folder, observer, is_asleep=is_asleep)
    if (head := unsupported_head(folder)) is not None:
        raise ModelLoadError(f"{folder}: a {head} can't be served: it neither generates nor makes vectors nor ranks")
    if is_encoder(folder):
        return load_encoder(settings, folder, observer, is_asleep=is_asleep)
    assert settings.dtype and settings.device and settings.cache_share and settings.engine  # noqa: S101, PT018
    tokenizer = FastTokenizer.from_folder(folder)
    chat = _chat_model(settings, folder, tokenizer)
    control_token_ids = chat.control_token_ids if chat else ControlTokens(tokenizer, "").ids
    weights = Weights(open_checkpoint(folder, None))
    built = build_engine(
        str(folder),
        settings.engine,
        compute_dtype=settings.dtype,
        device=settings.device,
        cache_share=settings.cache_share,
        control_token_ids=control_token_ids,
        ranges=RANGES,
        observer=observer,
        is_asleep=is_asleep,
    )
    if not built.eos_token_ids:  # answers would never end, and a grammar could allow no end
        raise ModelLoadError(f"{folder}: neither generation_config.json nor config.json has an eos_token_id")
    limits = WorkerLimits(max_wait_s=settings.engine.max_queue_wait_s or _THREAD_WAIT_S)
    images = _image_reader(settings, built, limits) if chat else None
    if images is not None:
        chat = _chat_model(settings, folder, tokenizer, images.form)
    return ServedGenerator(
        _description(settings, built, chat, takes_images=images is not None),
        built.engine,
        Preparation(
            settings.name,
            tokenizer,
            built.engine.max_model_len,
            chat,
            Workers(limits),
            images=images,
            sampling_defaults=read_sampling_defaults(folder, RANGES) if settings.generation_config else None,
        ),
        WatermarkDetector(tokenizer, settings.engine.watermark),
        tokenizer,
        weights,
        ModelFiles(built.folder),
        _ranker(settings, built, tokenizer),
    )


def _ranker(settings: ModelSettings, built: BuiltEngine, tokenizer: FastTokenizer) -> JudgeRanker | None:
    """Return the ranker, or None without the setting `rank`. Raise ModelLoadError unless each word is one token."""
    if (rank := settings.rank) is None:
        return None
    ids = []
    for name, word in (("yes_word", rank.yes_word), ("no_word", rank.no_word)):
        token_ids = tokenizer.encode(word)
        if len(token_ids) != 1:
            raise ModelLoadError(f"{built.folder}: rank.{name}: {word!r} is {len(token_ids)} tokens, not one")
        ids += token_ids
    reader = TemplatedPairs(tokenizer, rank.prompt, rank.instruction, built.engine.max_model_len - 1)
    return JudgeRanker(built.engine, reader, *ids)


def _image_reader(settings: ModelSettings, built: BuiltEngine, limits: WorkerLimits) -> ImageReader | None:
    """Return the image reader, or None if the model or its settings take no images. Raise ModelLoadError."""
    image_settings = settings.images or ImageSettings()
    if not built.info.takes_images or not image_settings.max_images:
        return None
    # Imported late: few models take images.
    from service.images.processor import ImageProcessor  # noqa: PLC0415
    from service.images.reader import ImageReader  # noqa: PLC0415

    return ImageReader(ImageProcessor(built.folder, built.tokenizer), image_settings, Workers(limits))


def _chat_model(
    settings: ModelSettings, folder: Path, tokenizer: FastTokenizer, image_form: ImageForm | None = None
) -> ChatModel | None:
    """Return the chat model, or None without a chat template: the model then completes prompts only."""
    try:
        template = ChatTemplate.from_folder(folder)
    except NoChatTemplate:
        _log.info("no chat template: the model completes prompts only", extra={"fields": {"model": settings.name}})
        return None
    chat: ChatSettings = settings.chat
    return ChatModel(
        template,
        tokenizer,
        default_system_prompt=chat.system_prompt,
        markers=ReasoningMarkers(*chat.reasoning_markers) if chat.reasoning_markers else None,
        syntax=SYNTAXES[chat.tool_syntax] if chat.tool_syntax else None,
        constrains_calls=chat.constrain_tool_calls,
        budgets=ReasoningBudgets(chat.reasoning_budget_low, chat.reasoning_budget_medium, chat.reasoning_budget_high),
        default_effort=_default_effort(chat.reasoning_effort),
        shows_schema=chat.schema_in_prompt,
        image_form=image_form,
    )


def _default_effort(name: str | None) -> DefaultEffort:
    """Return the default reasoning effort that the settings name."""
    if name is None:
        return None
    return "template" if name == "template" else ReasoningEffort(name)


def _description(
    settings: ModelSettings, built: BuiltEngine, chat: ChatModel | None, *, takes_images: bool
) -> ModelDescription:
    """Return a model's description for clients."""
    return ModelDescription(
        name=settings.name,
        version=settings.version,
        created_ns=time.time_ns(),
        tasks=[
            *((Task.CHAT,) if chat else ()),
            Task.COMPLETION,
            *((Task.RANK,) if settings.rank is not None else ()),
        ],
        architecture=built.info.architecture,
        max_model_len=built.engine.max_model_len,
        vocab_size=built.info.vocab_size,
        num_parameters=built.info.num_parameters,
        dtype=built.info.dtype,
        fingerprint=built.info.fingerprint,
        supports_tools=chat is not None and chat.supports_tools,
        supports_reasoning=chat is not None and chat.supports_reasoning,
        supports_resume=built.info.is_invariant,
        input_modalities=[Modality.TEXT, *((Modality.IMAGE,) if takes_images else ())],
    )
