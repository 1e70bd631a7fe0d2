"""The command with TLS: its errors name the option for an authority and the right scheme, over REST and gRPC."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.command import sluice
from tests.e2e.stack import GENERATOR, Stack, started

pytestmark = pytest.mark.slow  # the whole product is started

CALLS = (("models",), ("models", "sleep", "sluice-demo"))  # one over REST, one over gRPC


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the run's certificates."""
    return tmp_path_factory.mktemp("certs")


@pytest.fixture(scope="module")
def secure(folder: Path) -> Iterator[Stack]:
    """The product with TLS for clients."""
    with started(GENERATOR, "--tls=server", f"--certs-folder={folder}") as stack:
        yield stack


@pytest.mark.parametrize("call", CALLS)
def test_an_unknown_authority_names_the_option(secure: Stack, call: tuple[str, ...]) -> None:
    """Without the authority the error names --ca-file and SLUICE_CA_FILE."""
    done = sluice(*call, url=f"https://127.0.0.1:{secure.ports['envoy']}")
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1), done.stderr
    assert "--ca-file or SLUICE_CA_FILE" in done.stderr


@pytest.mark.parametrize("call", CALLS)
def test_http_to_a_server_with_tls_names_https(secure: Stack, call: tuple[str, ...]) -> None:
    """The error names the URL with https://."""
    address = f"127.0.0.1:{secure.ports['envoy']}"
    done = sluice(*call, url=f"http://{address}")
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1), done.stderr
    assert f"if the server has TLS, use https://{address}" in done.stderr


@pytest.mark.parametrize("call", CALLS)
def test_https_to_a_server_without_tls_names_http(stack: Stack, call: tuple[str, ...]) -> None:
    """The error names the URL with http://."""
    done = sluice(*call, url=stack.url.replace("http:", "https:"))
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1), done.stderr
    assert f"the server has no TLS there; use {stack.url}" in done.stderr


@pytest.mark.parametrize("call", CALLS)
def test_a_missing_file_of_authorities_is_named(secure: Stack, call: tuple[str, ...]) -> None:
    """The error names the option and the file."""
    done = sluice(*call, "--ca-file", "/no/ca.pem", url=f"https://127.0.0.1:{secure.ports['envoy']}")
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1), done.stderr
    assert "--ca-file /no/ca.pem: No such file or directory" in done.stderr


def test_command_succeeds_with_the_authority(secure: Stack, folder: Path) -> None:
    """With the authority the same command succeeds."""
    url = f"https://127.0.0.1:{secure.ports['envoy']}"
    done = sluice("models", "--ca-file", str(folder / "ca.pem"), url=url)
    assert "sluice-demo" in done.stdout.splitlines(), done.stderr


@pytest.fixture(scope="module")
def mutual(folder: Path) -> Iterator[Stack]:
    """The product with TLS for clients that have a certificate."""
    with started(GENERATOR, "--tls=mutual", f"--certs-folder={folder}") as stack:
        yield stack


def certificate(folder: Path, cert_file: str = "client.pem", key_file: str = "client-key.pem") -> dict[str, str]:
    """Return the variables that name two files of the folder; an empty name leaves the variable empty."""
    names = {"SLUICE_CLIENT_CERT_FILE": cert_file, "SLUICE_CLIENT_KEY_FILE": key_file}
    return {variable: str(folder / name) if name else "" for variable, name in names.items()}


ALL_CALLS = (
    ("models",),
    ("bench", "-n1", "-t1", "--warm-up=0"),
    ("bench", "-n1", "-t1", "--warm-up=0", "-dgrpc"),
    ("models", "load", "x", "/no"),
)


@pytest.mark.parametrize("call", ALL_CALLS)
def test_a_client_certificate_is_presented(mutual: Stack, folder: Path, call: tuple[str, ...]) -> None:
    """REST, gRPC and both kinds of load present the certificate of the environment; without one the error names it."""
    url, ca_file = f"https://127.0.0.1:{mutual.ports['envoy']}", str(folder / "ca.pem")
    done = sluice(*call, "--ca-file", ca_file, url=url)
    assert done.returncode == 1
    assert "SLUICE_CLIENT_CERT_FILE and SLUICE_CLIENT_KEY_FILE" in done.stderr
    done = sluice(*call, "--ca-file", ca_file, url=url, env=certificate(folder))
    if "load" in call:  # the server's own answer
        assert "models can't be loaded" in done.stderr
    else:
        assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("call", ALL_CALLS)
@pytest.mark.parametrize(
    ("variables", "problem"),
    [
        (("client.pem", ""), "SLUICE_CLIENT_CERT_FILE and SLUICE_CLIENT_KEY_FILE must be set together"),
        (("client.pem", "no.pem"), "No such file or directory"),
        (("client.pem", "server-key.pem"), "KEY_VALUES_MISMATCH"),
    ],
)
def test_a_certificate_that_cannot_be_used_is_named(
    secure: Stack, folder: Path, call: tuple[str, ...], variables: tuple[str, str], problem: str
) -> None:
    """The error names the variables and the problem on one line."""
    url = f"https://127.0.0.1:{secure.ports['envoy']}"
    done = sluice(*call, "--ca-file", str(folder / "ca.pem"), url=url, env=certificate(folder, *variables))
    assert (done.returncode, done.stderr.count("\n")) == (1, 1), done.stderr
    assert "SLUICE_CLIENT_KEY_FILE" in done.stderr
    assert problem in done.stderr


@pytest.mark.parametrize("call", ALL_CALLS)
def test_a_certificate_of_an_unknown_authority_is_rejected(
    mutual: Stack, folder: Path, tmp_path: Path, call: tuple[str, ...]
) -> None:
    """The error names the variables."""
    assert sluice("certs", "dev", str(tmp_path)).returncode == 0
    url = f"https://127.0.0.1:{mutual.ports['envoy']}"
    done = sluice(*call, "--ca-file", str(folder / "ca.pem"), url=url, env=certificate(tmp_path))
    assert done.returncode == 1
    assert "SLUICE_CLIENT_CERT_FILE and SLUICE_CLIENT_KEY_FILE" in done.stderr
