"""Starts the runner: `python -m runner`, which is what `sluice serve` runs."""

import signal

if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # Ctrl-C before anything has started needs no traceback

import sys

from runner.run import main

if __name__ == "__main__":
    sys.exit(main())
