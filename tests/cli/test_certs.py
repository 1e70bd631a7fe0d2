"""`sluice certs`: its files are usable, and keys are readable by their owner only."""

from __future__ import annotations

import ssl
import stat
from pathlib import Path

from cryptography import x509
from typer.testing import CliRunner

from cli.app import APP

FILES = ["ca.pem", "ca-key.pem", "server.pem", "server-key.pem", "client.pem", "client-key.pem"]


def dev(folder: Path, *more: str) -> str:
    result = CliRunner().invoke(APP, ["certs", "dev", str(folder), *more])
    assert result.exit_code == 0, result.output
    return result.output


def test_it_writes_an_authority_and_two_certificates(tmp_path: Path) -> None:
    """The paths are printed, keys have restricted permissions, and OpenSSL accepts each pair with the authority."""
    assert dev(tmp_path / "certs").split() == [str(tmp_path / "certs" / name) for name in FILES]
    for name in FILES:
        mode = stat.S_IMODE((tmp_path / "certs" / name).stat().st_mode)
        assert mode == (0o600 if name.endswith("-key.pem") else 0o644)
    for name in ("server", "client"):
        context = ssl.create_default_context(cafile=tmp_path / "certs" / "ca.pem")
        context.load_cert_chain(tmp_path / "certs" / f"{name}.pem", tmp_path / "certs" / f"{name}-key.pem")


def test_names_are_the_servers(tmp_path: Path) -> None:
    """The certificate contains host names and addresses as such."""
    dev(tmp_path, "--name", "sluice.example", "--name", "192.0.2.7")
    certificate = x509.load_pem_x509_certificate((tmp_path / "server.pem").read_bytes())
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["sluice.example"]
    assert [str(each) for each in names.get_values_for_type(x509.IPAddress)] == ["192.0.2.7"]


def test_an_authority_is_kept(tmp_path: Path) -> None:
    """A repeated call creates new certificates of the same authority."""
    dev(tmp_path)
    before = {name: (tmp_path / name).read_bytes() for name in FILES}
    dev(tmp_path)
    after = {name: (tmp_path / name).read_bytes() for name in FILES}
    assert [name for name in FILES if before[name] == after[name]] == ["ca.pem", "ca-key.pem"]


def test_an_invalid_authority_is_one_line(tmp_path: Path) -> None:
    """The error names the folder, with exit code 1."""
    for name in ("ca.pem", "ca-key.pem"):
        (tmp_path / name).write_text("nothing")
    result = CliRunner().invoke(APP, ["certs", "dev", str(tmp_path)])
    assert result.exit_code == 1
    assert result.output.count("\n") == 1
    assert str(tmp_path) in result.output
