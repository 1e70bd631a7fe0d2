"""`sluice usage`: the usage and the remaining limits of the caller's own key."""

from __future__ import annotations

from typing import Any, Final

from cli.calls.options import DEFAULT, AsJson, CaFile, Key, Url, connected, print_json, print_table, print_text

_COUNTS: Final = ("requests", "input_tokens", "output_tokens", "rejected_requests")


def usage(as_json: AsJson = False, url: Url = DEFAULT, key: Key = "", ca_file: CaFile = "") -> None:
    """Show this key's usage of each model, and its remaining limits."""
    with connected(url, key, ca_file) as server:
        found = server.get("/v1/usage")
        if as_json:
            print_json(found)
            return
        heads = ("MODEL", "REQUESTS", "INPUT TOKENS", "OUTPUT TOKENS", "REJECTED REQUESTS")
        print_table([heads, *((each["model"], *(f"{each[name]:,}" for name in _COUNTS)) for each in found["models"])])
        if found["limits"]:
            print_text("")
            print_table([("LIMIT", "MODEL", "VALUE", "LEFT"), *map(_limit_row, found["limits"])])


def _limit_row(limit: dict[str, Any]) -> tuple[str, ...]:
    left = "" if limit["remaining"] is None else f"{limit['remaining']:,}"
    return limit["quota_metric"], limit["model"] or "", f"{limit['limit']:,}", left
