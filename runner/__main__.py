"""The entry point of the runner: `python -m runner`, which `sluice serve` runs."""

import signal

if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # no traceback for Ctrl-C before the start

import sys

from runner.run import main

if __name__ == "__main__":
    sys.exit(main())
