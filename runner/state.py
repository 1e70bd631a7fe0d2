"""The state of a run: the folder of files that outlive the run; one run uses it at a time."""

from __future__ import annotations

import fcntl
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_ROOT = Path(__file__).resolve().parent.parent
_OPERATOR_TOKEN = "operator-token"  # noqa: S105  a file's name


class StateError(Exception):
    """A state folder can't be used; the message is one line for the user."""


def default_state_folder(port: int) -> Path:
    """Return the state folder of the run whose Envoy listens on `port`.

    It is in the checkout, or, when installed, in the user's folder for state.
    """
    if (_ROOT / "pyproject.toml").is_file():
        return _ROOT / ".state" / str(port)
    return Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state") / "sluice" / str(port)


@contextmanager
def claimed(folder: Path) -> Iterator[None]:
    """Claim a state folder for a run, which is created if it doesn't exist. Raise StateError if another run has it."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise StateError(f"state_folder {folder}: {error.strerror}") from error
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            text = "is used by another run; choose another with --state-folder or SLUICE_STATE_FOLDER"
            raise StateError(f"state_folder {folder} {text}") from error
        yield
    finally:
        os.close(lock)


def operator_token_file(folder: Path) -> Path:
    """Return the path of the operator token in a state folder."""
    return folder / _OPERATOR_TOKEN


def make_operator_token(folder: Path) -> Path:
    """Return the path of the operator token, which is created if it doesn't exist, for its owner only.

    Raise StateError.
    """
    path = operator_token_file(folder)
    temporary = path.with_name(f".{_OPERATOR_TOKEN}.new")
    try:
        if not path.exists():
            temporary.unlink(missing_ok=True)
            with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
                file.write(f"{secrets.token_urlsafe(32)}\n")
            temporary.replace(path)
    except OSError as error:
        raise StateError(f"state_folder {folder}: {error.strerror}") from error
    return path
