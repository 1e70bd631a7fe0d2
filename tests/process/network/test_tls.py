"""Certificate files: errors at the start, and changes at run time."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest
from pydantic import ValidationError

from process.network.tls import TargetTlsSettings, TlsError, TlsSettings, server_files, target_files
from runner.tls.certificates import make_certificates


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with certificates."""
    make_certificates(tmp_path, ["localhost"], 1)
    return tmp_path


def settings(folder: Path, **more: Path) -> TlsSettings:
    return TlsSettings(**{"cert_file": folder / "server.pem", "key_file": folder / "server-key.pem"} | more)


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"cert_file": "a"}, "cert_file and key_file need each other"),
        ({"key_file": "a"}, "cert_file and key_file need each other"),
        ({"client_ca_file": "a"}, "client_ca_file needs cert_file and key_file"),
    ],
)
def test_incomplete_files_are_rejected(given: dict[str, str], text: str) -> None:
    """An incomplete configuration is an error instead of plain text."""
    with pytest.raises(ValidationError, match=text):
        TlsSettings.model_validate(given)


def test_client_certificate_without_an_authority_is_rejected() -> None:
    """A client certificate without authorities to verify the server is rejected."""
    with pytest.raises(ValidationError, match="cert_file and server_name need ca_file"):
        TargetTlsSettings.model_validate({"cert_file": "a", "key_file": "b"})


def test_plain_text_is_the_default() -> None:
    """The default is plain text."""
    assert server_files(TlsSettings()) is None
    assert target_files(TargetTlsSettings()) is None


def test_error_about_invalid_files_is_one_line(folder: Path) -> None:
    """The error names the setting and the files: a missing file, another key, or no certificate."""
    with pytest.raises(TlsError, match=r"^tls: .*nowhere.* and .*: No such file or directory$"):
        server_files(settings(folder, cert_file=folder / "nowhere"))
    with pytest.raises(TlsError, match=r"^tls: .*: KEY_VALUES_MISMATCH$"):
        server_files(settings(folder, key_file=folder / "client-key.pem"))
    with pytest.raises(TlsError, match=r"^tls: .*server-key.pem: "):
        server_files(settings(folder, client_ca_file=folder / "server-key.pem"))


def test_changed_files_are_read_once(folder: Path) -> None:
    """Changed files are read once per change."""
    files = server_files(settings(folder))
    assert files is not None
    before = files.current
    assert not files.refresh()
    make_certificates(folder, ["localhost"], 1)
    assert files.refresh()
    assert not files.refresh()
    assert files.current != before


def test_invalid_files_are_logged_once(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The previous certificates stay in use."""
    files = server_files(settings(folder))
    assert files is not None
    before = files.current
    (folder / "server.pem").write_text("no certificate")
    with caplog.at_level(logging.WARNING):
        assert not files.refresh()
        assert not files.refresh()
    assert len(caplog.records) == 1
    assert files.current == before
