"""The processor time to render a model's Markdown grows linearly with its length, whatever the model writes."""

from __future__ import annotations

import json
import subprocess

from tests.e2e.stack import ROOT
from tests.waiting import GUARD_S

LIMIT = 28  # of the ratio of the times of texts, one of which is eight times as long as the other; 64 if quadratic
NOISE_MS = 2.0  # shorter times say nothing


def test_malicious_markdown_is_rendered_in_linear_time() -> None:
    """Marks without an end, nested marks and long runs of one character take no more time per character."""
    command = ["node", "tests/e2e/pages/markdown_times.mjs", "gateway/page/static/markdown.js"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=GUARD_S, check=True)
    times: dict[str, tuple[float, float]] = json.loads(done.stdout)
    slow = {name: (short, long) for name, (short, long) in times.items() if long > LIMIT * max(short, NOISE_MS / 8)}
    assert slow == {}
