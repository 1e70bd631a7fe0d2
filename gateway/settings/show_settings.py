"""`sluice config --gateway`: the gateway's settings, with the source of each."""

from __future__ import annotations

import sys

from gateway.settings.config import Settings
from process.settings.shown_settings import show_settings

if __name__ == "__main__":
    show_settings(Settings, "sluice config", sys.argv[1:])
