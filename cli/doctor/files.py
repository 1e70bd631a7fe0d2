"""Checks of files: permissions, and the dates of certificates."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from cryptography import x509

from cli.doctor.finding import Finding, Status
from process.network.tls import TlsError
from runner.settings import Settings, is_gguf, is_hub_id
from service.auth.keys.key_entry import KeysError
from service.auth.keys.key_file import read_keys

_RENEW_DAYS: Final = 14  # a certificate that ends sooner is a warning
_OTHERS: Final = 0o077  # the permissions of group and others


def check_files(settings: Settings) -> Iterator[Finding]:
    """Yield a finding for each file and folder that the settings name, and for Envoy's program."""
    yield _executable("envoy", Path(sys.executable).with_name("envoy"))
    yield _writable("state_folder", settings.state())
    yield _writable("endpoints_file", settings.endpoints().parent)
    for name, model in settings.served().items():
        if not is_hub_id(model):
            path = Path(model)
            yield _readable(f"model {name}", path if is_gguf(path) and not path.is_dir() else path / "config.json")
    if settings.config is not None:
        yield _readable("config", settings.config)
    if settings.keys_file is not None:
        yield _keys(settings.keys_file)
    if (public := settings.public_tls()) is not None:
        try:
            public.check()
        except TlsError as error:
            yield Finding("cert_file", Status.FAILED, str(error))
        yield check_certificate(public.cert_file)
        if public.client_ca_file is not None:
            yield check_certificate(public.client_ca_file)
    if settings.tls != "off":
        yield _writable("certs_folder", settings.certs())


def check_certificate(path: Path, now: datetime | None = None) -> Finding:
    """Return a finding about the dates of a PEM file's certificates; the one that ends first decides."""
    name = f"certificate {path.name}"
    try:
        found = x509.load_pem_x509_certificates(path.read_bytes())
    except OSError as error:
        return Finding(name, Status.FAILED, f"{path}: {error.strerror}")
    except ValueError:
        return Finding(name, Status.FAILED, f"{path}: no certificate in PEM")
    now = now or datetime.now(UTC)
    starts = max(each.not_valid_before_utc for each in found)
    ends = min(each.not_valid_after_utc for each in found)
    if starts > now:
        return Finding(name, Status.FAILED, f"{path}: not valid before {starts:%Y-%m-%d}")
    if ends <= now:
        return Finding(name, Status.FAILED, f"{path}: expired on {ends:%Y-%m-%d}")
    days = (ends - now).days
    status = Status.WARNING if days < _RENEW_DAYS else Status.OK
    return Finding(name, status, f"valid until {ends:%Y-%m-%d}, {days} days")


def _keys(path: Path) -> Finding:
    """Return a finding about the file of API keys."""
    try:
        entries = read_keys(path)
    except KeysError as error:
        return Finding("keys_file", Status.FAILED, str(error))
    if path.stat().st_mode & _OTHERS:
        return Finding("keys_file", Status.WARNING, f"{path}: other users can access it; run chmod 600 {path}")
    return Finding("keys_file", Status.OK, f"{path}: {len(entries)} keys")


def _executable(name: str, path: Path) -> Finding:
    if os.access(path, os.X_OK):
        return Finding(name, Status.OK, str(path))
    return Finding(name, Status.FAILED, f"{path}: no such program")


def _readable(name: str, path: Path) -> Finding:
    if os.access(path, os.R_OK):
        return Finding(name, Status.OK, str(path))
    return Finding(name, Status.FAILED, f"{path}: {'not readable' if path.exists() else 'no such file'}")


def _writable(name: str, folder: Path) -> Finding:
    """Return a finding about a folder that is created if it doesn't exist."""
    existing = folder.absolute()
    while not existing.exists() and existing != existing.parent:
        existing = existing.parent
    if existing.is_dir() and os.access(existing, os.W_OK | os.X_OK):
        return Finding(name, Status.OK, f"{folder} can be written")
    return Finding(name, Status.FAILED, f"{folder}: no permission to write to {existing}")
