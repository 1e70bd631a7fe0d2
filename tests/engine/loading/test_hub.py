"""Failures of downloads are load errors, whichever library raises them."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.waiting import GUARD_S

_DOWNLOAD = """
from service.engine.loading.hub import download
from service.generation.errors import ModelLoadError
try:
    download("org/model")
except ModelLoadError as error:
    print(error)
"""


@pytest.fixture
def disconnecting() -> Iterator[str]:
    """The address of a server that closes each connection after it has read a request."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:  # the test has ended
                    return
                with connection:
                    connection.recv(65536)

        thread = threading.Thread(target=serve)
        thread.start()
        host, port = server.getsockname()
        yield f"http://{host}:{port}"
        server.shutdown(socket.SHUT_RDWR)
        thread.join()


def downloaded(home: Path, **environment: str) -> str:
    """Return what the download of a model prints; the libraries read the environment when they are imported."""
    done = subprocess.run(
        [sys.executable, "-c", _DOWNLOAD],
        env={**os.environ, "HF_HOME": str(home), "HF_HUB_OFFLINE": "0", **environment},
        capture_output=True,
        text=True,
        timeout=GUARD_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_hub_that_disconnects_is_a_load_error(disconnecting: str, tmp_path: Path) -> None:
    """The HTTP library's own error is reported with the model's name."""
    text = downloaded(tmp_path, HF_ENDPOINT=disconnecting)
    assert text.startswith("org/model is not a folder and could not be downloaded from the model hub: Server disconn")


def test_an_unusable_proxy_is_a_load_error(tmp_path: Path) -> None:
    """The reason names the proxy."""
    text = downloaded(tmp_path, HF_ENDPOINT="https://hub.invalid", HTTPS_PROXY="socks9://proxy", NO_PROXY="")
    assert text.startswith("org/model is not a folder and could not be downloaded from the model hub: ")
    assert "socks9://proxy" in text
