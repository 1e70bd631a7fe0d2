"""TLS and mTLS of all processes: which clients are accepted, and certificates that change while streams run."""

import contextlib
import re
import socket
import ssl
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import httpx
import pytest
import sluice_client
from grpc_health.v1 import health_pb2, health_pb2_grpc
from sluice.v1 import model_pb2, model_pb2_grpc

from runner.proxy.envoy_tls import EnvoyTls
from runner.tls.certificates import make_certificates
from runner.tls.development_tls import DevelopmentTls
from tests.e2e.envoy_process import EnvoyProcess
from tests.e2e.stack import GENERATOR, Stack, free_ports, started
from tests.waiting import GUARD_S

NAMES = ["localhost", "127.0.0.1"]
LONG = {"model": "sluice-demo", "stream": True, "max_tokens": 400, "messages": [{"role": "user", "content": "Hi!"}]}
LISTENERS = ("envoy", "gateway", "service")


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> DevelopmentTls:
    """The run's certificates."""
    return DevelopmentTls(tmp_path_factory.mktemp("certs"), mutual=True)


@pytest.fixture(scope="module")
def secure(certificates: DevelopmentTls) -> Iterator[Stack]:
    """The product with mTLS everywhere."""
    with started(GENERATOR, "--tls=mutual", f"--certs-folder={certificates.folder}") as stack:
        yield stack


def certificate_at(port: int, certificates: DevelopmentTls) -> bytes:
    """Return the certificate that a new connection receives."""
    context = certificates.client_ssl_context()
    context.set_alpn_protocols(["h2", "http/1.1"])
    plain = socket.create_connection(("127.0.0.1", port), timeout=GUARD_S)
    with context.wrap_socket(plain, server_hostname="localhost") as connection:
        shown = connection.getpeercert(binary_form=True)
    assert shown is not None
    return shown


def client(certificates: DevelopmentTls) -> httpx.Client:
    """Return a client that keeps idle connections as long as the server does."""
    kept = httpx.Limits(keepalive_expiry=None)
    return httpx.Client(verify=certificates.client_ssl_context(), timeout=GUARD_S, limits=kept)


def list_models(port: int, certificates: DevelopmentTls) -> list[str]:
    """Return the models over gRPC on a new connection."""
    credentials = grpc.ssl_channel_credentials(*certificates.client_pems())
    with grpc.secure_channel(f"127.0.0.1:{port}", credentials) as channel:
        answer = model_pb2_grpc.ModelServiceStub(channel).ListModels(model_pb2.ListModelsRequest(), timeout=GUARD_S)
    return [model.name for model in answer.models]


def test_python_client_works_with_mutual_tls(secure: Stack, certificates: DevelopmentTls) -> None:
    """The Python client shows its certificate and trusts the given authorities, or the system's."""
    ca, own, key = (certificates.folder / f"{name}.pem" for name in ("ca", "client", "client-key"))
    url = f"https://127.0.0.1:{secure.ports['envoy']}"
    with sluice_client.Client(url, tls=sluice_client.Tls(authorities=ca, certificate=own, key=key)) as client:
        assert client.chat("Hello!", max_tokens=3).text
    for tls in (None, sluice_client.Tls(authorities=ca)):
        with sluice_client.Client(url, tls=tls) as client, pytest.raises(sluice_client.UnavailableError):
            client.models()
    with pytest.raises(ValueError, match="plain text, but tls is set"):
        sluice_client.Client(url.replace("https", "http"), tls=sluice_client.Tls())


def test_the_printed_request_works(secure: Stack) -> None:
    """The request in the greeting streams an answer unchanged."""
    (command,) = re.findall(r"^  (curl -N .*)$", secure.output, re.MULTILINE)
    done = subprocess.run(command, shell=True, capture_output=True, text=True, timeout=GUARD_S, check=True)  # noqa: S602 what a newcomer pastes
    assert done.stdout.endswith("data: [DONE]\n\n")


@pytest.mark.parametrize("name", LISTENERS)
def test_clients_without_a_certificate_are_rejected(secure: Stack, certificates: DevelopmentTls, name: str) -> None:
    """Plain text and TLS without a certificate of the authority get no response."""
    port = secure.ports[name]
    with pytest.raises(httpx.TransportError):
        httpx.get(f"http://127.0.0.1:{port}/healthz", timeout=GUARD_S).raise_for_status()
    without_certificate = ssl.create_default_context(cafile=certificates.folder / "ca.pem")
    with pytest.raises(httpx.TransportError), httpx.Client(verify=without_certificate, timeout=GUARD_S) as outsider:
        outsider.get(f"https://127.0.0.1:{port}/healthz")


@pytest.mark.parametrize("name", ["envoy", "service"])
def test_grpc_over_mutual_tls(secure: Stack, certificates: DevelopmentTls, name: str) -> None:
    """A client with a certificate is served, through Envoy and directly."""
    assert "sluice-demo" in list_models(secure.ports[name], certificates)


def test_certificates_change_while_streams_run(secure: Stack, certificates: DevelopmentTls) -> None:
    """New connections receive the new certificate everywhere; open connections and their streams continue."""
    before = {name: certificate_at(secure.ports[name], certificates) for name in LISTENERS}
    urls = [f"https://127.0.0.1:{secure.ports[name]}" for name in ("envoy", "gateway")]
    credentials = grpc.ssl_channel_credentials(*certificates.client_pems())
    with client(certificates) as caller, contextlib.ExitStack() as stack:
        watches = []
        for name in ("envoy", "service"):
            channel = stack.enter_context(grpc.secure_channel(f"127.0.0.1:{secure.ports[name]}", credentials))
            stub: Any = health_pb2_grpc.HealthStub(channel)  # it ships no types
            watch = stub.Watch(health_pb2.HealthCheckRequest())
            assert next(watch).status == health_pb2.HealthCheckResponse.SERVING
            watches.append(watch)
        addresses = [network_stream(caller.get(f"{url}/healthz")) for url in urls]
        with caller.stream("POST", f"{urls[0]}/v1/chat/completions", json=LONG) as answer:
            make_certificates(certificates.folder, NAMES, 30)
            after = changed(secure, certificates, before)
            assert list(answer.iter_lines())[-2] == "data: [DONE]"
        assert [watch.done() for watch in watches] == [False, False]
        assert len(set(after.values())) == 1  # the new one, everywhere
        assert [network_stream(caller.get(f"{url}/healthz")) for url in urls] == addresses
    with client(certificates) as caller:
        assert caller.get(f"{urls[0]}/v1/models").status_code == 200
    assert "sluice-demo" in list_models(secure.ports["envoy"], certificates)


def network_stream(answer: httpx.Response) -> object:
    """Return the client's address of the connection that the response arrived on."""
    return answer.extensions["network_stream"].get_extra_info("client_addr")


def changed(stack: Stack, certificates: DevelopmentTls, before: dict[str, bytes]) -> dict[str, bytes]:
    """Return the certificate of each listener, once all have changed."""
    deadline = time.monotonic() + GUARD_S
    while time.monotonic() < deadline:
        after = {name: certificate_at(stack.ports[name], certificates) for name in LISTENERS}
        if all(after[name] != before[name] for name in LISTENERS):
            return after
    raise AssertionError([name for name in LISTENERS if after[name] == before[name]])


def test_invalid_certificate_file_keeps_the_previous_certificate(secure: Stack, certificates: DevelopmentTls) -> None:
    """An invalid certificate file is logged, and the previous certificate stays in use."""
    file = certificates.folder / "server.pem"
    good = file.read_bytes()
    before = {name: certificate_at(secure.ports[name], certificates) for name in LISTENERS}
    partial = file.with_suffix(".new")
    partial.write_text("no certificate")
    partial.replace(file)
    try:
        assert {name: certificate_at(secure.ports[name], certificates) for name in LISTENERS} == before
        for name in ("gateway", "service"):
            secure.wait_for(name, "certificates are invalid; the previous ones stay in use", str(file))
    finally:
        partial.write_bytes(good)
        partial.replace(file)


def test_an_unfinished_handshake_is_closed(tmp_path: Path) -> None:
    """Envoy closes a connection without a TLS handshake after the timeout."""
    make_certificates(tmp_path / "certs", NAMES, 1)

    def change(config: dict[str, Any]) -> None:
        chain = config["static_resources"]["listeners"][0]["filter_chains"][0]
        chain["transport_socket_connect_timeout"] = "0.5s"

    tls = EnvoyTls(certificates=tmp_path / "certs", secrets=tmp_path)
    ports = free_ports(2)
    with contextlib.ExitStack() as stack:
        envoy = stack.enter_context(EnvoyProcess(ports[0], ports[1], change, healthy=False, tls=tls))
        connection = stack.enter_context(socket.create_connection(("127.0.0.1", envoy.port), timeout=GUARD_S))
        assert connection.recv(1) == b""
