"""Settings of ranking, for models whose files don't define the prompt of a pair."""

from __future__ import annotations

from typing import Final, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

# The prompt in the model card of Qwen3-Reranker.
_PROMPT: Final = (
    "<|im_start|>system\nJudge whether the Document meets the requirements based on the Query and the Instruct "
    'provided. Note that the answer can only be "yes" or "no".<|im_end|>\n'
    "<|im_start|>user\n<Instruct>: {instruction}\n<Query>: {query}\n<Document>: {document}<|im_end|>\n"
    "<|im_start|>assistant\n<think>\n\n</think>\n\n"
)
_INSTRUCTION: Final = "Given a web search query, retrieve relevant passages that answer the query"


class RankSettings(BaseModel):
    """How a generating model, or a classifier, judges a query and a document; the defaults suit Qwen3-Reranker."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    prompt: str = Field(_PROMPT, description="prompt of a pair, with {query}, {document} and optionally {instruction}")
    instruction: str = Field(_INSTRUCTION, description="instruction of requests without one")
    yes_word: str = Field(
        "yes", min_length=1, description="the one token with which a generating model says that a document is relevant"
    )
    no_word: str = Field("no", min_length=1, description="the one token that says that it is not")

    @model_validator(mode="after")
    def _prompt_takes_both(self) -> Self:
        for name in ("{query}", "{document}"):
            if self.prompt.count(name) != 1:
                raise ValueError(f"prompt: must have {name} once")
        return self
