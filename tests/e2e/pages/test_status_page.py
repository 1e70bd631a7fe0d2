"""The status page in a real browser: the load, errors, shares, and a missing server."""

from __future__ import annotations

import json
import subprocess
from typing import Any

import httpx
import pytest

from tests.e2e.guarded import Guarded
from tests.e2e.pages.browser import command_of, observations
from tests.e2e.stack import ROOT, Stack
from tests.waiting import GUARD_S


def seen(url: str, scenario: str, **environment: str) -> Any:
    """Run a scenario in a browser and return its observations."""
    return observations(command_of("status_page.mjs", f"{url}/", scenario), **environment)


def computed(script: str) -> Any:
    """Return the output of a script that imports the page's arithmetic."""
    source = json.dumps((ROOT / "gateway/page/status/readings.js").read_text())
    head = f'const {{ Readings, percentile }} = await import("data:text/javascript," + encodeURIComponent({source}));\n'
    command = ["node", "--input-type=module", "-e", head + script]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=GUARD_S, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_percentiles_are_interpolated_within_buckets() -> None:
    """Percentiles are interpolated within a bucket, limited to the outer bounds, and null without counts."""
    found = computed("""
        const of = (counts, share) => percentile({ bounds: [1, 2, 4], counts }, share);
        console.log(JSON.stringify([
          of([0, 10, 0, 0], 0.5), of([0, 0, 4, 0], 1), of([8, 0, 0, 0], 0.5), of([1, 0, 0, 9], 0.95),
          of([0, 0, 0, 0], 0.5), percentile(null, 0.5), of([5, 5, 0, 0], 0.75),
        ]));
    """)
    seconds = [each and each["seconds"] for each in found]
    assert seconds == [1.5, 4, 1, 4, None, None, 1.5]
    assert [(each["isFirst"], each["isOver"]) for each in found[2:4]] == [(True, False), (False, True)]


def test_rates_do_not_span_a_restart() -> None:
    """A restarted or unknown service makes a gap instead of a rate; a restarted gateway discards earlier readings."""
    found = computed("""
        const reading = (time_s, seconds, generated_tokens) => ({
          time_s, gateway: { active: 0, responses: {} },
          service: seconds && {
            started: { seconds, nanos: 0 }, models: [{ model: "m", generated_tokens }], calls: [], entities: [],
          },
        });
        const readings = new Readings();
        const rates = [[0, 7, 100], [5, 7, 150], [10, 9, 20], [15, 9, 70], [20, null, 0], [25, 9, 170]].map((each) => {
          readings.add(reading(...each));
          return readings.rate(readings.all.length - 1, "", "generated_tokens");
        });
        readings.add(reading(1, 9, 200));
        console.log(JSON.stringify([rates, readings.all.length]));
    """)
    assert found == [[None, 10, None, 10, None, None], 1]


def test_status_page_shows_the_current_load(stack: Stack) -> None:
    """Running answers show sequences, cache use and tokens; errors have their reason; every plot has a curve."""
    found = seen(stack.url, "load")
    assert found["busy"]["Running"] in {"1", "2"}
    assert found["busy"]["Cache in use"].endswith(" %")
    assert found["rate"] not in {"\u2013", "0"}
    assert found["first"].endswith("s")
    of, reason, recent, since = found["refused"]
    assert (of, reason, recent) == ("service", "MODEL_NOT_FOUND", "1")
    assert int(since.replace(",", "")) >= 1
    titles = [label.partition(",")[0] for label, _ in found["drawn"]]
    assert len(titles) == 7
    assert [label for label, has_curve in found["drawn"] if not has_curve] == []
    assert found["models"] == ["all models", "sluice-demo", "all-minilm-l6-v2"]
    assert found["other"] == "\u2013"
    assert found["errors"] == []
    assert [url for url in found["asked"] if not url.startswith((f"{stack.url}/", "data:"))] == []


def test_status_page_shows_configured_and_actual_shares(stack: Stack) -> None:
    """The table shows the configured and the actual share of an endpoint's entity."""
    url = f"{stack.url}/api/2.0/serving-endpoints"
    entity = {"name": "only", "entity_name": "sluice-demo", "entity_version": "1"}
    routes = {"routes": [{"served_model_name": "only", "traffic_percentage": 100}]}
    body = {"name": "shared", "config": {"served_entities": [entity], "traffic_config": routes}}
    assert httpx.post(url, json=body, timeout=GUARD_S).status_code == 200
    try:
        chat = {"model": "shared", "max_tokens": 1, "messages": [{"role": "user", "content": "Hi"}]}
        for _ in range(3):
            assert httpx.post(f"{stack.url}/v1/chat/completions", json=chat, timeout=GUARD_S).status_code == 200
        found = seen(stack.url, "shares")
    finally:
        httpx.delete(f"{url}/shared", timeout=GUARD_S)
    assert found["shares"] == ["shared", "only", "sluice-demo", "100 %", "100 %", "3"]
    assert found["errors"] == []


def test_updates_can_be_paused(stack: Stack) -> None:
    """A key press pauses all requests, of which a minute of the page's clock has none, and another one resumes them."""
    assert seen(stack.url, "pause") == {"pressed": "true", "meanwhile": 0, "errors": []}


def test_status_page_reports_an_unreachable_server(stack: Stack) -> None:
    """The problem is shown until the server responds again."""
    found = seen(stack.url, "lost")
    assert found["problem"] != ""
    assert found["after"] == ""


def test_status_data_requires_a_key_with_its_scope(guarded: Guarded) -> None:
    """The page itself is public; its data needs a key, which is not stored in the browser."""
    found = seen(guarded.base, "key", KEYS=f"{guarded.keys['operator']} {guarded.keys['team']}")
    assert "give a key with the scope metrics" in found["without"]
    assert found["problem"] == ""
    assert found["stored"] == "{}"
    assert "sluice-demo" in found["models"]


def test_page_is_accessible(stack: Stack) -> None:
    """The page is accessible.

    Axe finds no violation in light, dark and phone layouts, and all controls work by keyboard.
    """
    found = seen(stack.url, "access")
    assert {name: each for name, each in found["violations"].items() if each} == {}
    assert {"model", "span", "key", "pause"} <= set(found["reached"])


@pytest.mark.parametrize("path", ["/status", "/page/status.js"])
def test_files_have_a_security_policy_and_are_cached(stack: Stack, path: str) -> None:
    """Files have a strict content security policy, and unchanged ones are not sent again."""
    first = httpx.get(f"{stack.url}{path}", timeout=GUARD_S)
    assert first.status_code == 200
    assert "default-src 'none'" in first.headers["content-security-policy"]
    again = httpx.get(f"{stack.url}{path}", headers={"if-none-match": first.headers["etag"]}, timeout=GUARD_S)
    assert (again.status_code, again.content) == (304, b"")
