"""`sluice certs`: its files are usable, and keys are readable by their owner only."""

from __future__ import annotations

import ssl
import stat
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from typer.testing import CliRunner

from cli.app import APP
from process.settings.process_settings import read_settings
from runner.settings import Settings
from runner.startup.checks import RunError, make_certificates

FILES = ["ca.pem", "ca-key.pem", "server.pem", "server-key.pem", "client.pem", "client-key.pem"]


def dev(folder: Path, *more: str) -> str:
    result = CliRunner().invoke(APP, ["certs", "dev", str(folder), *more])
    assert result.exit_code == 0, result.output
    return result.output


def test_certs_writes_an_authority_and_two_certificates(tmp_path: Path) -> None:
    """The paths are printed, keys have restricted permissions, and OpenSSL accepts each pair with the authority."""
    assert dev(tmp_path / "certs").split() == [str(tmp_path / "certs" / name) for name in FILES]
    for name in FILES:
        mode = stat.S_IMODE((tmp_path / "certs" / name).stat().st_mode)
        assert mode == (0o600 if name.endswith("-key.pem") else 0o644)
    for name in ("server", "client"):
        context = ssl.create_default_context(cafile=tmp_path / "certs" / "ca.pem")
        context.load_cert_chain(tmp_path / "certs" / f"{name}.pem", tmp_path / "certs" / f"{name}-key.pem")


def test_certificate_has_the_given_names(tmp_path: Path) -> None:
    """The certificate contains host names and addresses as such."""
    dev(tmp_path, "--name", "sluice.example", "--name", "192.0.2.7")
    certificate = x509.load_pem_x509_certificate((tmp_path / "server.pem").read_bytes())
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["sluice.example"]
    assert [str(each) for each in names.get_values_for_type(x509.IPAddress)] == ["192.0.2.7"]


def test_repeated_call_keeps_the_authority(tmp_path: Path) -> None:
    """A repeated call creates new certificates of the same authority."""
    dev(tmp_path)
    before = {name: (tmp_path / name).read_bytes() for name in FILES}
    dev(tmp_path)
    after = {name: (tmp_path / name).read_bytes() for name in FILES}
    assert [name for name in FILES if before[name] == after[name]] == ["ca.pem", "ca-key.pem"]


def test_invalid_authority_is_rejected_in_one_line(tmp_path: Path) -> None:
    """The error names the folder, with exit code 1."""
    for name in ("ca.pem", "ca-key.pem"):
        (tmp_path / name).write_text("nothing")
    result = CliRunner().invoke(APP, ["certs", "dev", str(tmp_path)])
    assert result.exit_code == 1
    assert result.output.count("\n") == 1
    assert str(tmp_path) in result.output


def write_foreign(folder: Path, name: str, common_name: str = "company") -> None:
    """Write a self-signed certificate and its key, as another program would."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject, now = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)]), datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now)
        .not_valid_after(now + timedelta(days=1))
        .sign(key, hashes.SHA256())
    )
    (folder / f"{name}.pem").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    plain = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    (folder / f"{name}-key.pem").write_bytes(key.private_bytes(*plain))


def without(name: str) -> Callable[[Path], None]:
    """Return a change that makes development certificates and removes one file."""

    def change(folder: Path) -> None:
        dev(folder)
        (folder / name).unlink()

    return change


def replaced(name: str, common_name: str) -> Callable[[Path], None]:
    """Return a change that makes development certificates and replaces one pair."""

    def change(folder: Path) -> None:
        dev(folder)
        write_foreign(folder, name, common_name)

    return change


@pytest.mark.parametrize(
    ("prepare", "named"),
    [
        pytest.param(lambda folder: write_foreign(folder, "server"), "server.pem", id="server"),
        pytest.param(lambda folder: write_foreign(folder, "client"), "client.pem", id="client"),
        pytest.param(lambda folder: write_foreign(folder, "ca"), "ca.pem", id="authority"),
        pytest.param(lambda folder: (folder / "server-key.pem").write_text("key"), "server-key.pem", id="key"),
        pytest.param(lambda folder: (folder / "ca-key.pem").write_text("key"), "ca-key.pem", id="authority-key"),
        pytest.param(without("ca-key.pem"), "ca.pem", id="authority-without-key"),
        pytest.param(without("ca.pem"), "ca-key.pem", id="key-without-authority"),
        pytest.param(replaced("server", "company"), "server.pem", id="replaced-server"),
        pytest.param(replaced("server", "sluice development server"), "server.pem", id="same-name"),
        pytest.param(replaced("ca", "sluice development authority"), "server.pem", id="other-authority"),
    ],
)
def test_foreign_files_are_never_overwritten(prepare: Callable[[Path], None], named: str, tmp_path: Path) -> None:
    """Neither `sluice certs dev` nor `sluice serve --tls` changes a file that it did not make; the error names it."""
    prepare(tmp_path)
    before = {file.name: file.read_bytes() for file in tmp_path.iterdir()}
    result = CliRunner().invoke(APP, ["certs", "dev", str(tmp_path)])
    assert (result.exit_code, result.output.count("\n")) == (1, 1)
    assert f"{tmp_path}: {named} " in result.output
    settings = read_settings(Settings, ["--tls=server", f"--certs-folder={tmp_path}"])
    with pytest.raises(RunError, match=rf"certs_folder {tmp_path}: {named} "):
        make_certificates(settings)
    assert {file.name: file.read_bytes() for file in tmp_path.iterdir()} == before
