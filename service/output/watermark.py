"""Detect the watermark in a text.

A long text takes a good part of a second: it is scored on a worker thread.
"""

from __future__ import annotations

from dataclasses import dataclass

from service.engine.tokenizer import Tokenizer
from service.engine.watermark import Watermark, WatermarkScore, detect
from service.generation.errors import InvalidRequest


@dataclass(frozen=True, slots=True)
class WatermarkDetector:
    """Finds the watermark that one model's engine puts into its texts."""

    tokenizer: Tokenizer
    watermark: Watermark

    def score(self, text: str) -> WatermarkScore:
        """Score a text by the tokens it has now, which where it was edited or re-spelled aren't those it was made of.

        Raises InvalidRequest for fewer than two.
        """
        token_ids = self.tokenizer.encode(text)
        if len(token_ids) < 2:
            raise InvalidRequest("text", f"must have at least 2 tokens, not {len(token_ids)}")
        return detect(self.watermark, token_ids)
