"""`sluice config`: the service's settings and the source of each."""

from __future__ import annotations

import sys

from process.settings.shown_settings import show_settings
from service.settings.config import Settings

if __name__ == "__main__":
    show_settings(Settings, "sluice config", sys.argv[1:])
