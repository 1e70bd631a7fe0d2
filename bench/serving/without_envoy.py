"""Run service and gateway without Envoy, until SIGINT: `python -m bench.serving.without_envoy`.

The options are the runner's. It ends when one of the two processes does.
"""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
import time
from pathlib import Path

from process.lifetime.scheduling import use_batch_policy
from process.settings.process_settings import read_settings
from runner.processes.lifeline import die_with_parent
from runner.settings import Settings
from runner.startup.commands import commands
from runner.state import claimed, make_operator_token

POLL_S = 0.2


def main() -> None:
    settings = read_settings(Settings, sys.argv[1:])
    use_batch_policy()  # as the runner does
    with claimed(settings.state()):
        programs = commands(settings, Path("envoy.yaml"), make_operator_token(settings.state()))
        processes = [
            subprocess.Popen(programs[name], preexec_fn=die_with_parent())  # noqa: PLW1509 there is one thread
            for name in ("service", "gateway")
        ]
        with contextlib.suppress(KeyboardInterrupt):
            while all(process.poll() is None for process in processes):
                time.sleep(POLL_S)
        for process in reversed(processes):
            process.send_signal(signal.SIGINT)
            process.wait()


if __name__ == "__main__":
    main()
