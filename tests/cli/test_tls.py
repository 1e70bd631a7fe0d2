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
