"""The settings of one model: its name, how it is loaded, and how it chats."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field

from process.settings.quantities import Count, Tokens
from service.settings.engine_settings import EngineSettings
from service.settings.image_settings import ImageSettings
from service.settings.names import ModelName, PlainName
from service.settings.rank_settings import RankSettings

SyntaxName: TypeAlias = Literal[
    "harmony",
    "gemma4",
    "functiongemma",
    "kimi-k2",
    "deepseek-v3",
    "deepseek-v3.1",
    "deepseek-v3.2",
    "step3",
    "seed-oss",
    "minimax-m2",
    "glm-4.5",
    "qwen3-coder",
    "command-a",
    "command-r",
    "internlm2",
    "phi-4-mini",
    "granite",
    "granite-20b",
    "olmo3",
    "llama4-pythonic",
    "lfm2",
    "pythonic",
    "apertus",
    "nemotron",
    "minimax-m1",
    "hermes",
    "mistral-named",
    "mistral",
    "function-tag",
    "glm-4",
    "llama3",
    "json",
]
Dtype: TypeAlias = Literal["auto", "bfloat16", "float32"]


class ChatSettings(BaseModel):
    """How one model chats. Markup that is null is detected in its chat template."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    system_prompt: str | None = Field(None, description="system message of chats without one")
    tool_syntax: SyntaxName | None = Field(
        None,
        description="syntax in which the model writes tool calls; null: detected in its chat template or tokenizer",
    )
    constrain_tool_calls: bool = Field(
        True,
        description="constrain the arguments of every tool call to their schema; false: only if the request asks for "
        "it, by strict or by requiring a call",
    )
    reasoning_markers: tuple[str, str] | None = Field(
        None, description="text that opens and closes reasoning in the output; null: detected in the chat template"
    )
    reasoning_effort: Literal["template", "none", "low", "medium", "high"] | None = Field(
        None,
        description="reasoning effort of requests without one; template: the chat template's default; null: medium on "
        "Databricks' paths, as documented there, and the chat template's default elsewhere",
    )
    schema_in_prompt: bool = Field(
        True, description="add the name, description and schema of the requested JSON to the prompt"
    )
    reasoning_budget_low: Tokens | None = Field(512, description="reasoning tokens at low effort; null: no limit")
    reasoning_budget_medium: Tokens | None = Field(
        4096, description="reasoning tokens at medium effort; null: no limit"
    )
    reasoning_budget_high: Tokens | None = Field(None, description="reasoning tokens at high effort; null: no limit")


class EmbeddingSettings(BaseModel):
    """Properties of one model's embeddings."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    dimensions: Literal["any"] | list[Count] | None = Field(
        None, description="dimensions to which embeddings may be truncated; null: those in the model's files"
    )


class ModelSettings(BaseModel):
    """One model to serve. For dtype, device, engine, images and generation_config null means the service's setting."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: ModelName = Field(description="name that requests give as their model")
    path: str = Field(min_length=1, description="folder, GGUF file, or id on the model hub")
    version: str = Field("1", min_length=1, max_length=64, description="version shown to clients, which can request it")
    dtype: Dtype | None = Field(None, description="type of the weights; null: the service's setting")
    device: str | None = Field(None, description="device that computes; null: the service's setting")
    cache_share: Annotated[float, Field(gt=0, le=1)] | None = Field(
        None,
        description="fraction of the cache memory that the models before it leave; null: an equal share with the rest",
    )
    engine: EngineSettings | None = Field(
        None,
        description="settings of its engine, which replace all of the service's: what is not given has its default; "
        "null: the service's settings",
    )
    chat: ChatSettings = Field(ChatSettings(), description="how the model chats")
    generation_config: bool | None = Field(
        None, description="use the defaults of the model's generation_config.json; null: the service's setting"
    )
    embedding: EmbeddingSettings = Field(EmbeddingSettings(), description="properties of its embeddings")
    images: ImageSettings | None = Field(None, description="images in requests to it; null: the service's settings")
    adapters: dict[PlainName, Annotated[str, Field(min_length=1)]] = Field(
        {}, description="NAME: PATH of LoRA adapters, folders in PEFT's format, served as MODEL:NAME"
    )
    pinned: bool = Field(
        False, description="keep it in memory if models are loaded on demand, whatever requests other models need"
    )
    rank: RankSettings | None = Field(
        None,
        description="how a generating model, or a classifier, ranks documents with a prompt; null: it doesn't rank",
    )
