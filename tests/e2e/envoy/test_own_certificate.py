"""`sluice serve` with the operator's own certificate: clients see it, and processes trust each other as before."""

from __future__ import annotations

import ssl
import subprocess
import sys
from pathlib import Path

import grpc
import httpx
import pytest
from sluice.v1 import model_pb2, model_pb2_grpc

from runner.tls.certificates import make_certificates
from tests.e2e.stack import GENERATOR, PORTS, ROOT, Stack, free_ports
from tests.waiting import GUARD_S

NAME = "models.example.org"


@pytest.mark.parametrize(("tls", "has_admin_port"), [("server", True), ("server", False), ("mutual", False)])
def test_clients_see_the_operators_certificate(tmp_path: Path, tls: str, *, has_admin_port: bool) -> None:
    """REST and gRPC have the given certificate; with `mutual`, only clients of the given authority are served.

    Envoy's admin interface, which knows whether the product is ready, is at a port or, by default, at a Unix socket.
    """
    own, internal = tmp_path / "own", tmp_path / "internal"
    make_certificates(own, [NAME, "127.0.0.1"], 30)
    options = [GENERATOR, f"--tls={tls}", f"--certs-folder={internal}"]
    options += [f"--cert-file={own / 'server.pem'}", f"--key-file={own / 'server-key.pem'}"]
    if tls == "mutual":
        options.append(f"--client-ca-file={own / 'ca.pem'}")
    names = [name for name in PORTS if has_admin_port or name != "envoy_admin"]
    stack = Stack(*options, ports=dict(zip(names, free_ports(len(names)), strict=True)))
    try:
        stack.wait_for("sluice is ready.")
        stack.wait_for(f"https://{NAME}:{stack.ports['envoy']}")
        url = f"https://127.0.0.1:{stack.ports['envoy']}"
        context = ssl.create_default_context(cafile=own / "ca.pem")
        if tls == "mutual":
            with httpx.Client(verify=context) as stranger, pytest.raises(httpx.TransportError):
                stranger.get(f"{url}/v1/models", timeout=GUARD_S)
            context.load_cert_chain(own / "client.pem", own / "client-key.pem")
        with httpx.Client(verify=context, timeout=GUARD_S) as client:
            assert client.get(f"{url}/v1/models").status_code == 200
        pems = [(own / f"{name}.pem").read_bytes() for name in ("ca", "client-key", "client")]
        with grpc.secure_channel(url.removeprefix("https://"), grpc.ssl_channel_credentials(*pems)) as channel:
            stub = model_pb2_grpc.ModelServiceStub(channel)
            assert stub.ListModels(model_pb2.ListModelsRequest(), timeout=GUARD_S).models
    finally:
        assert stack.stop() == 0, stack.output


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        (["--cert-file=c.pem"], 2, "cert_file and key_file need each other"),
        (["--cert-file=c.pem", "--key-file=k.pem"], 2, "cert_file needs tls: server"),
        (["--tls=server", "--client-ca-file=c.pem"], 2, "client_ca_file needs cert_file and tls: mutual"),
        (["--tls=mutual", "--cert-file=c.pem", "--key-file=k.pem"], 2, "these two need client_ca_file"),
        (["--tls=server", "--cert-file=/no/c.pem", "--key-file=/no/k.pem"], 1, "cert_file and key_file: /no/c.pem"),
    ],
)
def test_invalid_certificates_are_errors_before_the_start(
    arguments: list[str], code: int, text: str, tmp_path: Path
) -> None:
    """The error names the setting, and nothing is started."""
    command = [sys.executable, "-m", "runner", f"--state-folder={tmp_path}", *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=GUARD_S, check=False)
    assert done.returncode == code, done.stdout + done.stderr
    assert text in done.stdout + done.stderr
