"""`sluice keys usage`: the tokens and rejections of each key, from the metrics pages of services."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Final

import httpx
import typer

from cli.calls.options import AsJson, fail, print_json, print_table

_DEFAULT: Final = "http://127.0.0.1:9464/metrics"  # the service's default metrics_host and metrics_port
_TIMEOUT_S: Final = 10.0
_TOKENS: Final = "sluice_quota_tokens_total"
_REJECTIONS: Final = "sluice_quota_refusals_total"
_COLUMNS: Final = ("input_tokens", "output_tokens", "rejected_requests")


def usage(
    key_id: Annotated[str, typer.Argument(metavar="[ID]", help="The key's id; default: all keys.")] = "",
    metrics: Annotated[
        list[str], typer.Option(metavar="URL", help="A service's metrics page; repeatable, counts are added.")
    ] = [_DEFAULT],
    as_json: AsJson = False,
) -> None:
    """Show each key's tokens and rejected requests per model since the services started."""
    counts = _counts([_page(url) for url in metrics])
    shown = {pair: numbers for pair, numbers in sorted(counts.items()) if key_id in {"", pair[0]}}
    if as_json:
        values = ((pair, dict(zip(_COLUMNS, numbers, strict=True))) for pair, numbers in shown.items())
        print_json([{"key": key, "model": model, **each} for (key, model), each in values])
        return
    heads = ("KEY", "MODEL", "INPUT TOKENS", "OUTPUT TOKENS", "REJECTED REQUESTS")
    print_table([heads, *((*pair, *(f"{each:,}" for each in numbers)) for pair, numbers in shown.items())])


def _counts(pages: Sequence[str]) -> dict[tuple[str, str], list[int]]:
    """Return the sums of `_COLUMNS` by key and model."""
    from prometheus_client.parser import text_string_to_metric_families  # noqa: PLC0415  imported on use

    counts: dict[tuple[str, str], list[int]] = {}
    for page in pages:
        for family in text_string_to_metric_families(page):
            for sample in family.samples:
                if sample.name not in {_TOKENS, _REJECTIONS}:
                    continue
                labels = sample.labels
                if sample.name == _REJECTIONS:
                    column = "rejected_requests"
                else:
                    column = f"{labels.get('gen_ai_token_type', 'input')}_tokens"
                pair = (labels.get("sluice_key", ""), labels.get("gen_ai_request_model", ""))
                counts.setdefault(pair, [0] * len(_COLUMNS))[_COLUMNS.index(column)] += int(sample.value)
    return counts


def _page(url: str) -> str:
    """Return a service's metrics page. Fail if it can't be read."""
    try:
        answer = httpx.get(url, timeout=_TIMEOUT_S)
        answer.raise_for_status()
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        fail(f"--metrics {url}: {error}; expected a service's metrics page, such as {_DEFAULT}")
    return answer.text
