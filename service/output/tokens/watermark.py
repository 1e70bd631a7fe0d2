"""Detect the watermark in a text.

Scoring a long text takes up to a second: call it on a worker thread.
"""

from __future__ import annotations

from dataclasses import dataclass

from service.engine.tokens.tokenizer import Tokenizer
from service.engine.tokens.watermark import Watermark, WatermarkScore, detect
from service.generation.errors import InvalidRequest


@dataclass(frozen=True, slots=True)
class WatermarkDetector:
    """Detects the watermark that one model's engine adds to its texts."""

    tokenizer: Tokenizer
    watermark: Watermark

    def score(self, text: str) -> WatermarkScore:
        """Return the score of a text, by its tokens, which differ from the generated ones where it was edited.

        Raise InvalidRequest for fewer than two tokens.
        """
        token_ids = self.tokenizer.encode(text)
        if len(token_ids) < 2:
            raise InvalidRequest("text", f"must have at least 2 tokens, not {len(token_ids)}")
        return detect(self.watermark, token_ids)
