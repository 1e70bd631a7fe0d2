"""Keys for the operators' paths, and the addresses on which a gateway may listen without keys."""

from __future__ import annotations

import subprocess
import sys
import urllib.request

import httpx

from tests.e2e.guarded import MODEL, Guarded
from tests.e2e.stack import ROOT, Stack, free_ports
from tests.waiting import GUARD_S


def gateway(port: int, target: int, *options: str, host: str = "0.0.0.0") -> subprocess.Popen[str]:  # noqa: S104
    """Start a gateway, by default on an address that other machines can reach."""
    command = [sys.executable, "-m", "gateway", "--host", host, "--port", str(port)]
    command += ["--target", f"127.0.0.1:{target}", *options]
    return subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)


def listening(process: subprocess.Popen[str]) -> None:
    """Return when a gateway listens."""
    assert process.stderr is not None
    while "listening" not in process.stderr.readline():
        assert process.poll() is None


def test_metrics_on_the_public_listener_require_their_scope(guarded: Guarded) -> None:
    """Through Envoy metrics need an operator's key, which the gateway verifies with the service."""
    for path in ("/metrics", "/status.json"):
        assert httpx.get(f"{guarded.base}{path}", timeout=GUARD_S).status_code == 401
        refused = guarded.get(path, guarded.keys["team"])
        assert (refused.status_code, refused.json()["error"]["message"]) == (403, "the key lacks the scope metrics")
        assert 'scope="metrics"' in refused.headers["www-authenticate"]
    assert "rpc_client_call_duration" in guarded.get("/metrics", guarded.keys["operator"]).text


def test_metrics_need_no_key_without_authentication(stack: Stack) -> None:
    """Without authentication the gateway's own port serves metrics to everyone."""
    assert httpx.get(f"http://127.0.0.1:{stack.ports['gateway']}/metrics", timeout=GUARD_S).status_code == 200


def test_operator_paths_are_only_on_the_admin_port(guarded: Guarded) -> None:
    """Metrics, status, docs and changes of endpoints are only on the admin port; everything else is on both."""
    callers, operators = free_ports(2)
    process = gateway(callers, guarded.stack.ports["service"], "--admin-port", str(operators), host="127.0.0.1")
    try:
        listening(process)
        headers = {"authorization": f"Bearer {guarded.keys['operator']}"}

        def status(method: str, port: int, path: str) -> int:
            url = f"http://127.0.0.1:{port}{path}"
            return httpx.request(
                method, url, headers=headers, json={} if method == "POST" else None, timeout=GUARD_S
            ).status_code

        endpoints = "/api/2.0/serving-endpoints"
        for path in ("/metrics", "/status", "/status.json", "/docs", "/openapi.json", "/sluice.binpb"):
            assert (status("GET", callers, path), status("GET", operators, path)) == (404, 200)
        assert (status("POST", callers, endpoints), status("POST", operators, endpoints)) == (405, 400)
        assert status("DELETE", callers, f"{endpoints}/nobodys") == 405
        assert status("DELETE", operators, f"{endpoints}/nobodys") == 404
        assert (status("GET", callers, endpoints), status("GET", operators, endpoints)) == (200, 200)
        load = "/v2/repository/models/nobodys/load"
        assert (status("POST", callers, load), status("POST", operators, load)) == (404, 403)
        assert (status("GET", callers, "/healthz"), status("GET", operators, "/healthz")) == (200, 200)
        assert httpx.get(f"http://127.0.0.1:{operators}/metrics", timeout=GUARD_S).status_code == 200
        state = httpx.get(f"http://127.0.0.1:{operators}/status.json", timeout=GUARD_S).json()  # the gateway has no key
        assert state["service"] is None
        assert state["problem"].startswith("a key is required")
        state = httpx.get(f"http://127.0.0.1:{operators}/status.json", headers=headers, timeout=GUARD_S).json()
        assert MODEL in [each["model"] for each in state["service"]["models"]]
    finally:
        process.terminate()
        process.communicate(timeout=GUARD_S)
    assert process.returncode == 0


def test_public_gateway_exits_if_the_service_requires_no_keys(stack: Stack) -> None:
    """The gateway exits with one line when the service reports that it requires no keys, and serves nothing before."""
    (port,) = free_ports(1)
    process = gateway(port, stack.ports["service"])
    _, errors = process.communicate(timeout=GUARD_S)
    assert process.returncode == 1
    assert errors.splitlines()[-1].startswith("sluice-gateway: host: 0.0.0.0 can be reached from other machines, and ")


def test_public_gateway_serves_clients_with_a_key(guarded: Guarded) -> None:
    """If the service requires keys, the gateway may listen on all interfaces."""
    (port,) = free_ports(1)
    process = gateway(port, guarded.stack.ports["service"])
    try:
        listening(process)
        headers = {"authorization": f"Bearer {guarded.keys['team']}"}
        url = f"http://127.0.0.1:{port}/v1/models"
        with urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=GUARD_S) as answer:
            assert MODEL in answer.read().decode()
        assert httpx.get(url, timeout=GUARD_S).status_code == 401
    finally:
        process.terminate()
        process.communicate(timeout=GUARD_S)
