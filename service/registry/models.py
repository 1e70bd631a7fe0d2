"""Served models: a description, an engine, and what prepares requests for it."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import TypeAlias

from service.engine.interface.port import Embedder, Generator
from service.engine.tokens.tokenizer import Tokenizer
from service.output.tokens.watermark import WatermarkDetector
from service.prompting.preparation import Preparation
from service.prompts.embeddings.embedding import EmbeddingPrompts
from service.ranking.bi_encoder import BiEncoderRanker
from service.ranking.cross_encoder import CrossEncoderRanker
from service.ranking.judge import JudgeRanker
from service.ranking.ranker import Ranker
from service.registry.description import ModelDescription, Task
from service.registry.model_files import ModelFiles
from service.registry.weights import Weights


@dataclass(frozen=True, slots=True)
class ServedGenerator:
    """A generative model with its engine, prompt preparation and tokenizer."""

    description: ModelDescription
    engine: Generator
    preparation: Preparation
    watermark: WatermarkDetector
    tokenizer: Tokenizer
    weights: Weights
    files: ModelFiles
    ranker: JudgeRanker | None = None  # set if the model has the setting `rank`
    adapter: str = ""  # the adapter's name without the model's; empty for the base model
    adapter_digest: str = ""  # a hash of the adapter's files

    @property
    def name(self) -> str:
        return self.description.name

    def with_length(self, max_model_len: int) -> ServedGenerator:
        """Return the model with another maximum length, which applies to the requests that wait for it, too."""
        self.preparation.max_model_len = max_model_len
        if self.ranker is not None:
            self.ranker.set_length(max_model_len)
        return replace(self, description=replace(self.description, max_model_len=max_model_len))

    def adapted(self, adapter: str, fingerprint: str, digest: str) -> ServedGenerator:
        """Return the model with an adapter that its engine has loaded. It is closed together with the model."""
        name = adapted_name(self.name, adapter)
        tasks = [task for task in self.description.tasks if task is not Task.RANK]
        description = replace(
            self.description, name=name, parent=self.name, created_ns=time.time_ns(), tasks=tasks,
            fingerprint=fingerprint,
        )  # fmt: skip
        preparation = self.preparation.with_adapter(name, adapter)
        return replace(
            self, description=description, preparation=preparation, ranker=None, adapter=adapter,
            adapter_digest=digest,
        )  # fmt: skip

    async def close(self) -> None:
        """Stop the engine and the worker threads."""
        await self.engine.close()
        self.preparation.close()
        if self.ranker is not None:
            self.ranker.close()


@dataclass(frozen=True, slots=True)
class ServedEncoder:
    """An embedding model with its engine, prompt preparation and tokenizer."""

    description: ModelDescription
    engine: Embedder
    prompts: EmbeddingPrompts
    tokenizer: Tokenizer
    files: ModelFiles

    @property
    def name(self) -> str:
        return self.description.name

    async def close(self) -> None:
        """Stop the engine and the worker threads."""
        await self.engine.close()
        self.prompts.close()

    @property
    def ranker(self) -> Ranker:
        """A ranker by cosine similarity of embeddings."""
        return BiEncoderRanker(self.engine, self.prompts)


@dataclass(frozen=True, slots=True)
class ServedCrossEncoder:
    """A model that scores pairs of texts, with its engine, ranker and tokenizer."""

    description: ModelDescription
    engine: Embedder
    ranker: CrossEncoderRanker
    tokenizer: Tokenizer

    @property
    def name(self) -> str:
        return self.description.name

    async def close(self) -> None:
        """Stop the engine and the worker threads."""
        await self.engine.close()
        self.ranker.close()


ServedModel: TypeAlias = ServedGenerator | ServedEncoder | ServedCrossEncoder


def adapted_name(model: str, adapter: str) -> str:
    """The served name of an adapter. Requests may omit the model if no other model has an adapter of that name."""
    return f"{model}:{adapter}"


@dataclass(frozen=True, slots=True)
class RankingModel:
    """A model's name with its ranker."""

    name: str
    ranker: Ranker
