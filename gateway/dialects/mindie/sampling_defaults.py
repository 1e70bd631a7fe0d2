"""The defaults of sampling parameters that MindIE's API documents."""

from __future__ import annotations

from typing import Final

from gateway.dialects.seam.sampling_defaults import UNMODIFIED, SamplingDefaults

MINDIE_DEFAULTS: Final[SamplingDefaults] = {**UNMODIFIED, "repetition_penalty": 1, "typical_p": 1}
