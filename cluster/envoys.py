"""Read from Envoy which pools without replicas are called."""

from __future__ import annotations

import json
import urllib.request
from typing import Final

from runner.proxy.eds import Host
from runner.proxy.fleet import affinity_cluster

_TIMEOUT_S: Final = 2.0


class Callers:
    """The calls of pools that had no host, as counted by one Envoy."""

    def __init__(self, admin: Host) -> None:
        self._url = f"http://{admin}/stats?format=json&filter=upstream_cx_none_healthy"
        self._before: dict[str, int] = {}

    def called(self) -> frozenset[str]:
        """Return the clusters with calls that found no host since the last time; empty if Envoy does not answer."""
        try:
            with urllib.request.urlopen(self._url, timeout=_TIMEOUT_S) as page:  # noqa: S310  http, by the line above
                stats = json.load(page)["stats"]
        except (OSError, ValueError, KeyError):
            return frozenset()
        now = {each["name"].split(".")[1]: int(each["value"]) for each in stats if each.get("name", "").count(".") == 2}
        before, self._before = self._before, now
        return frozenset(name for name, count in now.items() if count > before.get(name, count))


def is_called(pool: str, clusters: frozenset[str]) -> bool:
    """Return True if either cluster of a pool is among `clusters`."""
    return not clusters.isdisjoint({pool, affinity_cluster(pool)})
