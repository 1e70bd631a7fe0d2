"""The operator token of a server that `sluice serve` runs on this machine, for changes without API keys."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from process.network.loopback import is_loopback
from runner.state import default_state_folder, operator_token_file

_PORTS: Final = {"http": 80, "https": 443}


def operator_token(url: str) -> str:
    """Return the token of the server at `url`; empty if it is on another machine or has none that this user can read.

    It is in the folder SLUICE_STATE_FOLDER, or in the one that the server's port gives.
    """
    try:
        parts = urlsplit(url)
        port = parts.port or _PORTS.get(parts.scheme, 0)
    except ValueError:
        return ""
    if not is_loopback(parts.hostname or ""):
        return ""
    given = os.environ.get("SLUICE_STATE_FOLDER")
    try:
        return operator_token_file(Path(given) if given else default_state_folder(port)).read_text().strip()
    except (OSError, UnicodeDecodeError):
        return ""
