"""The settings of one model: its name, how it is loaded, and how it chats."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field

from service.settings.engine_settings import EngineSettings
from service.settings.image_settings import ImageSettings
from service.settings.rank_settings import RankSettings

Size: TypeAlias = Annotated[int, Field(ge=1)]
SyntaxName: TypeAlias = Literal[
    "harmony",
    "gemma4",
    "functiongemma",
    "kimi-k2",
    "deepseek-v3",
    "deepseek-v3.1",
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
ModelName: TypeAlias = Annotated[str, Field(min_length=1, max_length=256)]
PlainName: TypeAlias = Annotated[str, Field(pattern=r"^[A-Za-z0-9._-]{1,256}$")]


class ChatSettings(BaseModel):
    """How one model chats. Markup that is None is found in its chat template."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    system_prompt: str | None = Field(None, description="system message of chats that have none")
    tool_syntax: SyntaxName | None = Field(
        None, description="how the model writes tool calls; null: found in its chat template or tokenizer"
    )
    constrain_tool_calls: bool = Field(
        True,
        description="whether each call's arguments match its schema; false: where the request is strict or demands it",
    )
    reasoning_markers: tuple[str, str] | None = Field(
        None, description="what opens and closes reasoning in the model's output; null: found in its chat template"
    )
    reasoning_effort: Literal["template", "none", "low", "medium", "high"] | None = Field(
        None,
        description="effort of requests that name none; template: as its chat template has it; null: medium on "
        "Databricks' paths, as documented there, else as its chat template has it",
    )
    schema_in_prompt: bool = Field(
        True, description="tell the model the name, description and schema of the JSON that is wanted"
    )
    reasoning_budget_low: Size | None = Field(512, description="reasoning tokens at low effort; null: no limit")
    reasoning_budget_medium: Size | None = Field(4096, description="reasoning tokens at medium effort")
    reasoning_budget_high: Size | None = Field(None, description="reasoning tokens at high effort")


class EmbeddingSettings(BaseModel):
    """What one model's vectors are good for."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    dimensions: Literal["any"] | list[Size] | None = Field(
        None, description="numbers of leading components that vectors may be cut to; null: those of the model's files"
    )


class ModelSettings(BaseModel):
    """One model to serve. For dtype, device, engine and images None means the service's setting of that name."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: ModelName = Field(description="what callers pick it by")
    path: str = Field(min_length=1, description="a folder, or an id on the model hub")
    version: str = Field("1", min_length=1, max_length=64, description="shown to callers, who may ask for it")
    dtype: Dtype | None = Field(None, description="as the service's setting of that name; null: that one")
    device: str | None = Field(None, description="as the service's setting of that name; null: that one")
    cache_share: Annotated[float, Field(gt=0, le=1)] | None = Field(
        None,
        description="share of the cache memory that the models before it leave; null: an equal share with those after",
    )
    engine: EngineSettings | None = Field(
        None, description="sizes of its engine, all of them: what is not given has its default; null: the service's"
    )
    chat: ChatSettings = Field(ChatSettings(), description="how it chats")
    generation_config: bool | None = Field(None, description="as the service's setting of that name; null: that one")
    embedding: EmbeddingSettings = Field(EmbeddingSettings(), description="what its vectors are good for")
    images: ImageSettings | None = Field(None, description="images of requests to it; null: the service's")
    adapters: dict[PlainName, Annotated[str, Field(min_length=1)]] = Field(
        {}, description="NAME: PATH of LoRA adapters, folders as PEFT saves them, served as MODEL:NAME"
    )
    rank: RankSettings | None = Field(
        None, description="how a model that generates, or one with a classifier, ranks by a prompt; null: it doesn't"
    )
