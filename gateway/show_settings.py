"""`sluice config --gateway`: the gateway's settings and where each came from."""

from __future__ import annotations

import sys

from gateway.config import Settings
from process.settings.shown_settings import show_settings

if __name__ == "__main__":
    show_settings(Settings, "sluice config", sys.argv[1:])
