"""Settings of ranking, for models whose files don't say how pairs are read."""

from __future__ import annotations

from typing import Final, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

# What the family Qwen3-Reranker was trained on, as its model card tells.
_PROMPT: Final = (
    "<|im_start|>system\nJudge whether the Document meets the requirements based on the Query and the Instruct "
    'provided. Note that the answer can only be "yes" or "no".<|im_end|>\n'
    "<|im_start|>user\n<Instruct>: {instruction}\n<Query>: {query}\n<Document>: {document}<|im_end|>\n"
    "<|im_start|>assistant\n<think>\n\n</think>\n\n"
)
_INSTRUCTION: Final = "Given a web search query, retrieve relevant passages that answer the query"


class RankSettings(BaseModel):
    """How a model that generates judges pairs, or one with a classifier reads them; by default as Qwen3-Reranker."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    prompt: str = Field(
        _PROMPT, description="the prompt of a pair, with {query} and {document}, and {instruction} if it takes one"
    )
    instruction: str = Field(_INSTRUCTION, description="what stands for {instruction} where callers give none")
    yes_word: str = Field(
        "yes", min_length=1, description="one token: the answer of a generating model that a document fits"
    )
    no_word: str = Field("no", min_length=1, description="one token: the answer that it does not")

    @model_validator(mode="after")
    def _prompt_takes_both(self) -> Self:
        for name in ("{query}", "{document}"):
            if self.prompt.count(name) != 1:
                raise ValueError(f"prompt: must have {name} once")
        return self
