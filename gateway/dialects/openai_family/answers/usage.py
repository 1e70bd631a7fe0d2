"""Usage, finish reasons, progress and logprobs in the JSON of OpenAI's family."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from sluice.v1 import chat_pb2
from sluice.v1.logprobs_pb2 import TokenLogprob
from sluice.v1.serving_pb2 import PromptProgress
from sluice.v1.usage_pb2 import Usage

from gateway.dialects.openai_family.answers.token_list import to_token_list

FINISH_REASONS: Final = {
    chat_pb2.FINISH_REASON_STOP: "stop",
    chat_pb2.FINISH_REASON_LENGTH: "length",
    chat_pb2.FINISH_REASON_TOOL_CALLS: "tool_calls",
    chat_pb2.FINISH_REASON_CONTENT_FILTER: "content_filter",
}


def to_usage(usage: Usage) -> dict[str, Any]:
    """Return `usage` of an answer. The reasoning tokens are in both fields where clients look for them."""
    return {
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.completion_tokens,
        "total_tokens": usage.prompt_tokens + usage.completion_tokens,
        "reasoning_tokens": usage.reasoning_tokens,
        "prompt_tokens_details": {"cached_tokens": usage.cached_tokens},
        "completion_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
    }


def to_prompt_progress(progress: PromptProgress) -> dict[str, int]:
    """Return `prompt_progress` of a chunk, as of llama.cpp's server. `processed` includes `cache`."""
    return {
        "total": progress.total_tokens,
        "cache": progress.cached_tokens,
        "processed": progress.processed_tokens,
        "time_ms": progress.elapsed.ToMilliseconds(),
    }


def to_logprobs(logprobs: Iterable[TokenLogprob]) -> dict[str, Any]:
    """Return `logprobs` of a choice or a chunk."""
    return {"content": to_token_list(logprobs), "refusal": None}
