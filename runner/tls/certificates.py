"""Certificates for development, signed by a local authority whose key is in the same folder."""

from __future__ import annotations

import ipaddress
import os
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final, TypeAlias

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

Key: TypeAlias = ec.EllipticCurvePrivateKey

MAX_DAYS: Final = 3650
_AUTHORITY: Final = "sluice development authority"
_LEAVES = {"server": ExtendedKeyUsageOID.SERVER_AUTH, "client": ExtendedKeyUsageOID.CLIENT_AUTH}


def make_certificates(folder: Path, names: Sequence[str], days: int) -> list[Path]:
    """Write the files atomically and return their paths.

    Raise OSError, and ValueError for a file in the folder that an earlier call did not make; then nothing is written.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    authority, authority_key = _authority(folder)
    alternatives = [_subject_alternative_name(each) for each in names]
    for leaf, usage in _LEAVES.items():
        key = ec.generate_private_key(ec.SECP256R1())
        builder = (
            _builder(f"sluice development {leaf}", key, days)
            .issuer_name(authority.subject)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
            .add_extension(_authority_id(authority_key), critical=False)
        )
        if leaf == "server":
            builder = builder.add_extension(x509.SubjectAlternativeName(alternatives), critical=False)
        _write(folder, leaf, builder.sign(authority_key, hashes.SHA256()), key)
    return [folder / f"{each}{end}" for each in ("ca", *_LEAVES) for end in (".pem", "-key.pem")]


def _authority(folder: Path) -> tuple[x509.Certificate, Key]:
    """Return the certificate and key of the folder's authority, which are created if they do not exist.

    Raise ValueError for files that can't be overwritten: those of another program.
    """
    if found := _read_authority(folder):
        _check_leaves(folder, found[0])
        return found
    _check_leaves(folder, None)
    key = ec.generate_private_key(ec.SECP256R1())
    builder = _builder(_AUTHORITY, key, MAX_DAYS)
    certificate = (
        builder.issuer_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, _AUTHORITY)]))
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_KEY_CERT_SIGN, critical=True)
        .sign(key, hashes.SHA256())
    )
    _write(folder, "ca", certificate, key)
    return certificate, key


def _read_authority(folder: Path) -> tuple[x509.Certificate, Key] | None:
    """Return the authority that an earlier call made, or None. Raise ValueError for another one, or half of one."""
    certificate_file, key_file = folder / "ca.pem", folder / "ca-key.pem"
    if not certificate_file.exists():
        if key_file.exists():
            raise _foreign(key_file)
        return None
    if not key_file.exists():
        raise _foreign(certificate_file)
    try:
        certificate = x509.load_pem_x509_certificate(certificate_file.read_bytes())
        key = serialization.load_pem_private_key(key_file.read_bytes(), None)
        certificate.verify_directly_issued_by(certificate)
    except (ValueError, TypeError, InvalidSignature, UnsupportedAlgorithm) as error:
        raise _foreign(certificate_file) from error
    names = certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    is_own = [name.value for name in names] == [_AUTHORITY] and key.public_key() == certificate.public_key()
    if not isinstance(key, ec.EllipticCurvePrivateKey) or not is_own:
        raise _foreign(certificate_file)
    return certificate, key


def _check_leaves(folder: Path, authority: x509.Certificate | None) -> None:
    """Raise ValueError for a certificate that the authority did not sign, and for a key without a certificate."""
    for leaf in _LEAVES:
        certificate_file, key_file = folder / f"{leaf}.pem", folder / f"{leaf}-key.pem"
        if certificate_file.exists():
            if authority is None:
                raise _foreign(certificate_file)
            try:
                x509.load_pem_x509_certificate(certificate_file.read_bytes()).verify_directly_issued_by(authority)
            except (ValueError, TypeError, InvalidSignature, UnsupportedAlgorithm) as error:
                raise _foreign(certificate_file) from error
        elif key_file.exists():
            raise _foreign(key_file)


def _foreign(file: Path) -> ValueError:
    """Return the error for a file that was not made here."""
    return ValueError(
        f"{file.name} is not of the development certificates made here, and is not overwritten; choose another "
        "folder, or move the file away"
    )


_KEY_CERT_SIGN = x509.KeyUsage(
    digital_signature=False, content_commitment=False, key_encipherment=False, data_encipherment=False,
    key_agreement=False, key_cert_sign=True, crl_sign=True, encipher_only=False, decipher_only=False,
)  # fmt: skip


def _builder(common_name: str, key: Key, days: int) -> x509.CertificateBuilder:
    """Return a builder with the fields that authority and leaf certificates have in common."""
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)]))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(minutes=5))  # for machines whose clocks are slow
        .not_valid_after(now + timedelta(days=days))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )


def _authority_id(key: Key) -> x509.AuthorityKeyIdentifier:
    return x509.AuthorityKeyIdentifier.from_issuer_public_key(key.public_key())


def _subject_alternative_name(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _write(folder: Path, name: str, certificate: x509.Certificate, key: Key) -> None:
    """Write the key before the certificate, because processes reload both when the certificate changes."""
    plain = serialization.NoEncryption()
    pem = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, plain)
    _replace(folder / f"{name}-key.pem", pem, 0o600)
    _replace(folder / f"{name}.pem", certificate.public_bytes(serialization.Encoding.PEM), 0o644)


def _replace(path: Path, content: bytes, mode: int) -> None:
    """Replace a file, so that readers find the old or the new content."""
    temporary = path.with_name(f".{path.name}.new")
    temporary.unlink(missing_ok=True)
    with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
        file.write(content)
    temporary.replace(path)
