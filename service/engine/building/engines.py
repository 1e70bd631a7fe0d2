"""Build an engine from a model's folder, on a thread or in a worker process."""

from __future__ import annotations

from collections import abc
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from service.engine.client.embedder import EmbedderClient
from service.engine.client.generator import GeneratorClient
from service.engine.interface.config import EngineConfig
from service.engine.interface.description import (
    ComputeDtype,
    CrossEncoderDescription,
    EncoderDescription,
    GeneratorDescription,
    ModelInfo,
)
from service.engine.interface.port import StepObserver
from service.engine.link.cache_file import CacheFile
from service.engine.link.engine_spec import EngineSpec
from service.engine.link.link import Link
from service.engine.link.process_link import ProcessLink
from service.engine.link.thread_link import ThreadLink
from service.engine.loading.model_folder import find_folder
from service.engine.tokens.tokenizer import FastTokenizer
from service.generation.requests.parameters import Ranges
from service.generation.requests.ranking import Activation

_Description = TypeVar("_Description")


@dataclass(frozen=True, slots=True)
class BuiltEngine:
    """A generator that is loaded but not started."""

    engine: GeneratorClient
    tokenizer: FastTokenizer
    config: EngineConfig  # no field is None, unless the engine is asleep
    info: ModelInfo
    folder: Path  # of the model's files, including its chat template
    eos_token_ids: frozenset[int]


@dataclass(frozen=True, slots=True)
class BuiltEncoder:
    """An encoder that is loaded but not started."""

    engine: EmbedderClient
    tokenizer: FastTokenizer
    config: EngineConfig  # with an encoder's limits filled in
    info: ModelInfo
    description: EncoderDescription

    @property
    def num_dimensions(self) -> int:
        """The number of dimensions of each vector."""
        return self.description.num_dimensions


@dataclass(frozen=True, slots=True)
class BuiltCrossEncoder:
    """A cross-encoder that is loaded but not started."""

    engine: EmbedderClient  # its vectors are scores before the activation
    tokenizer: FastTokenizer
    config: EngineConfig  # with an encoder's limits filled in
    info: ModelInfo
    activation: Activation


def build_engine(
    model: str,
    config: EngineConfig,
    *,
    compute_dtype: ComputeDtype = "auto",
    device: str = "auto",
    cache_share: float = 1.0,
    control_token_ids: abc.Mapping[str, int] | None = None,
    ranges: Ranges | None = None,
    observer: StepObserver | None = None,
    is_asleep: bool = False,
) -> BuiltEngine:
    """Load `model`, a folder or a hub id, and size the engine for it. Raise ModelLoadError if that fails.

    `device` is a torch device or "auto": CUDA if available, otherwise the CPU. The cache takes at most the fraction
    `cache_share` of the memory available for caches; the rest is left to engines built later. `control_token_ids` are
    the tokens that constraints exclude from text; `ranges` are the allowed ranges of request parameters. The call may
    take minutes, so run it on a thread. With `is_asleep`, which needs a worker process, no weights are loaded: the
    engine's first `wake` loads them.
    """
    folder = find_folder(model)
    arguments = {
        "model": str(folder),
        "config": config,
        "compute_dtype": compute_dtype,
        "device": device,
        "cache_share": cache_share,
        "control_token_ids": dict(control_token_ids or {}),
    }
    cache_file = _cache_file(config)
    if cache_file is not None:
        arguments["cache_file"] = cache_file.path
    load, plan = (
        "service.engine.loading.generator:load_generator",
        "service.engine.loading.generator_plan:plan_generator",
    )
    spec = EngineSpec(load, arguments, planner=plan)
    link, description = _load_core(
        spec, config, model, GeneratorDescription, cache_file=cache_file, is_asleep=is_asleep
    )
    engine = GeneratorClient(
        link,
        description.config,
        vocab_size=description.vocab_size,
        ranges=ranges,
        cache_groups=description.cache_groups,
        observer=observer,
        is_asleep=is_asleep,
    )
    tokenizer = FastTokenizer.from_folder(folder)
    return BuiltEngine(engine, tokenizer, description.config, description.info, folder, description.eos_token_ids)


def build_encoder(
    folder: Path,
    config: EngineConfig,
    *,
    compute_dtype: ComputeDtype = "auto",
    device: str = "auto",
    observer: StepObserver | None = None,
    is_asleep: bool = False,
) -> BuiltEncoder:
    """Load the encoder of `folder` and size its engine. Raise ModelLoadError if that fails.

    `device` is a torch device or "auto": CUDA if available, otherwise the CPU. The call may take minutes, so run it on
    a thread. `is_asleep` is that of `build_engine`.
    """
    arguments = {"folder": folder, "config": config, "compute_dtype": compute_dtype, "device": device}
    loading = "service.engine.loading.encoder"
    spec = EngineSpec(f"{loading}:load_encoder", arguments, planner=f"{loading}:plan_encoder")
    link, description = _load_core(spec, config, str(folder), EncoderDescription, is_asleep=is_asleep)
    engine = EmbedderClient(
        link, description.config, vocab_size=description.info.vocab_size, observer=observer, is_asleep=is_asleep
    )
    tokenizer = FastTokenizer.from_folder(description.body)
    return BuiltEncoder(engine, tokenizer, description.config, description.info, description)


def build_cross_encoder(
    folder: Path,
    config: EngineConfig,
    *,
    compute_dtype: ComputeDtype = "auto",
    device: str = "auto",
    observer: StepObserver | None = None,
    is_asleep: bool = False,
) -> BuiltCrossEncoder:
    """Load the cross-encoder of `folder` and size its engine. Arguments and errors are those of `build_encoder`."""
    arguments = {"folder": folder, "config": config, "compute_dtype": compute_dtype, "device": device}
    loading = "service.engine.loading.encoder"
    spec = EngineSpec(f"{loading}:load_cross_encoder", arguments, planner=f"{loading}:plan_cross_encoder")
    link, description = _load_core(spec, config, str(folder), CrossEncoderDescription, is_asleep=is_asleep)
    engine = EmbedderClient(
        link, description.config, vocab_size=description.info.vocab_size, observer=observer, is_asleep=is_asleep
    )
    return BuiltCrossEncoder(
        engine,
        FastTokenizer.from_folder(description.body),
        description.config,
        description.info,
        description.activation,
    )


def _cache_file(config: EngineConfig) -> CacheFile | None:
    """Return the memory of a generator's cache, which outlives a worker process; None if there is no such process."""
    if config.worker != "process":
        return None
    with suppress(OSError):
        return CacheFile()
    return None


def _load_core(
    engine_spec: EngineSpec,
    config: EngineConfig,
    name: str,
    kind: type[_Description],
    *,
    cache_file: CacheFile | None = None,
    is_asleep: bool,
) -> tuple[Link, _Description]:
    """Load a core, in a worker process if `config` says so, and return the link to it and its description of `kind`.

    With `is_asleep` the core is only planned.
    """
    link: Link
    description: Any
    if config.worker == "process":
        process = ProcessLink(
            engine_spec, name=name, detects_suspension=config.reject_while_suspended, cache_file=cache_file
        )
        link, description = process, process.plan() if is_asleep else process.launch()
    elif is_asleep:
        raise ValueError(f"{name}: an engine that is not loaded yet needs a worker process")
    else:
        built = engine_spec.make()
        link, description = ThreadLink(built.core), built.description
    if not isinstance(description, kind):
        raise TypeError(f"expected a {kind.__name__}, got {description!r}")
    return link, description
