"""Test every architecture with a causal head in transformers, and write docs/models.md: python -m tests.models."""

from __future__ import annotations

import sys
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

from service.engine.loading.model_source import num_cores
from tests.models.table import DECODERS, EQUAL, FILE, OTHERS, Row, quiet, read, rendered, tried


def main(*kinds: str) -> int:
    """Test all architectures, or only the named ones, keeping the page's other rows. Return 0 if no answers differ."""
    chosen = kinds or (*DECODERS, *OTHERS)
    text = FILE.read_text(encoding="utf-8")
    rows: dict[str, Row] = read(text) if kinds else {}
    with ProcessPoolExecutor(num_cores(), get_context("spawn"), quiet) as pool:
        for row in pool.map(tried, chosen):
            rows[row.kind] = row
            print(f"{row.kind:28} {row.backend:24} {row.result}", flush=True)
    FILE.write_text(rendered(text, rows.values()), encoding="utf-8")
    wrong = [row.kind for row in rows.values() if row.result != EQUAL and row.backend]
    print(f"{sum(row.result == EQUAL for row in rows.values())} equal, {len(wrong)} otherwise: {', '.join(wrong)}")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
