"""The results of batches with an expiry of their own, over both stores."""

from __future__ import annotations

import pytest

from service.storage.responses.batch_port import BatchRecord, BatchStatus, NewLine
from service.storage.responses.port import StoreLimit
from tests.service.storage.batches.test_batch_store import ALL, DAY_NS, Opened, opened
from tests.service.storage.test_response_store import SECOND_NS

__all__ = ["opened"]  # the fixture


def test_results_expire_before_their_batch(opened: Opened) -> None:
    """They don't exist from then on, are deleted by the next purge, and no longer count; the batch remains."""
    store, now_ns = opened.store.batches, opened.clock()
    store.begin(BatchRecord("a", "b", now_ns, now_ns + DAY_NS, b"", b"caller", results_lifetime_s=3600))
    store.append("a", "b", [NewLine(b"<line>")])
    store.complete("a", "b", b"<digest>")
    opened.clock.now_ns += SECOND_NS
    opened.finish("h", *opened.claim("h"), size=20)
    opened.clock.now_ns += 3600 * SECOND_NS - 1
    file = store.files.get("a", "b-output")
    assert file is not None
    assert file.expires_ns == opened.clock() + 1
    assert [each.result[:6] for each in store.results("a", "b", -1, ALL, 9)] == [b"answer"]
    opened.clock.now_ns += 1
    assert (store.files.get("a", "b-output"), store.results("a", "b", -1, ALL, 9)) == (None, [])
    opened.store.purge()
    assert opened.traces(b"<line>") == []
    assert opened.traces(b"answer") == []
    assert opened.status("b") == (BatchStatus.COMPLETED, 1, 0)
    store.begin(BatchRecord("a", "c", opened.clock(), opened.clock() + DAY_NS, b"", b""))
    with pytest.raises(StoreLimit, match="have 10000 bytes"):
        store.append("a", "c", [NewLine(bytes(10000))])
