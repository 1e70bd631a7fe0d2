"""Prefixes of texts by purpose, as named by the files of sentence-transformers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from service.generation.requests.embedding import Purpose

_NAMES: Final[dict[Purpose, tuple[str, ...]]] = {
    "": (),
    "query": ("query", "search_query"),
    "document": ("document", "passage", "corpus", "search_document"),
}


def prompt_for(purpose: Purpose, prompts: Mapping[str, str], default: str) -> str:
    """Return the prompt of the purpose's first name that the model has; the default if it has none of them."""
    return next((prompts[name] for name in _NAMES[purpose] if name in prompts), default)
