"""Run Envoy so that SIGTERM loses no request: `python -m runner.proxy.front_door ADMIN [OPTIONS] -- envoy -c …`.

At SIGTERM Envoy's health checks fail and its responses ask clients to reconnect elsewhere, while it still accepts
connections for `drain_time_s`. Then it stops listening, and ends when the running requests have ended, at the latest
after `drain_timeout_s`. At SIGINT (Ctrl-C) it stops listening immediately, because there is no load balancer to
notify. A second signal kills it. Without this program Envoy would abort all running requests at either signal. If
Envoy exits by itself, this program exits with its exit code.
"""

import signal

if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # no traceback for Ctrl-C before Envoy runs

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from runner.processes.lifeline import die_with_parent
from runner.proxy.admin import EnvoyAdmin
from runner.proxy.closing import listeners_of, num_waiting, reject_new_connections
from runner.proxy.fleet import FleetError, read_fleet

_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGCHLD)
_POLL_S = 0.1
_ACCEPT_S = 1.0  # the time for Envoy to accept established connections, which usually takes no time


class EnvoyProcess:
    """An Envoy process with its admin interface. Signals must be blocked in all threads."""

    def __init__(self, command: Sequence[str], admin: EnvoyAdmin) -> None:
        self._admin = admin
        # The child unblocks its signals, and dies with this process.
        self._process = subprocess.Popen(command, preexec_fn=die_with_parent())  # noqa: PLW1509 there is one thread

    def wait_for_stop(self) -> signal.Signals | None:
        """Wait for a stop signal and return it, or return None if Envoy exits first."""
        while True:
            number = self._next_signal(None)
            if number is not None or self._process.poll() is not None:
                return number

    def drain(self, drain_time_s: float, timeout_s: float) -> None:
        """Stop listening after `drain_time_s`, and end Envoy when no request runs, or after `timeout_s`."""
        deadline = time.monotonic() + timeout_s
        self._post("/healthcheck/fail")
        if drain_time_s:
            self._post("/drain_listeners?graceful&skip_exit")  # it only asks clients to reconnect elsewhere
            self._pause(drain_time_s)
        self._stop_listening()
        while self._process.poll() is None and time.monotonic() < deadline and self._num_active():
            self._pause(_POLL_S)
        self._process.terminate()

    def wait(self) -> int:
        """Wait for Envoy and return its exit code; another signal kills it."""
        while self._process.poll() is None:
            self._pause(60)
        return self._process.returncode

    def _stop_listening(self) -> None:
        """Close the listeners after all established connections are accepted, because closing resets the others."""
        with listeners_of(self._process.pid, but_port=self._admin.port) as listeners:
            reject_new_connections(listeners)
            until = time.monotonic() + _ACCEPT_S
            self._pause(_POLL_S)  # for handshakes in progress
            while self._process.poll() is None and time.monotonic() < until and any(map(num_waiting, listeners)):
                self._pause(_POLL_S)
        self._post("/drain_listeners")

    def _pause(self, duration_s: float) -> None:
        """Wait for `duration_s`, or until Envoy exits; a signal kills Envoy."""
        until = time.monotonic() + duration_s
        while self._process.poll() is None and (left_s := until - time.monotonic()) > 0:
            if self._next_signal(left_s) is not None:
                self._process.kill()

    def _next_signal(self, timeout_s: float | None) -> signal.Signals | None:
        """Return the next stop signal, or None after the timeout or when Envoy may have exited."""
        received = signal.sigwaitinfo(_SIGNALS) if timeout_s is None else signal.sigtimedwait(_SIGNALS, timeout_s)
        return None if received is None or received.si_signo == signal.SIGCHLD else signal.Signals(received.si_signo)

    def _num_active(self) -> int:
        """Return the number of running requests; 0 if Envoy does not answer."""
        try:
            with self._admin.open("/stats?filter=downstream_rq_active&format=json") as page:
                stats = json.load(page)["stats"]
        except (OSError, ValueError):
            return 0
        return sum(each["value"] for each in stats if "name" in each and not each["name"].startswith("http.admin."))

    def _post(self, path: str) -> None:
        """Call Envoy's admin interface. A failure is reported on standard error."""
        try:
            self._admin.open(path, "POST").close()
        except OSError as error:
            sys.stderr.write(f"front_door: Envoy's {path} failed: {error}\n")


def main(arguments: Sequence[str]) -> int:
    """Run Envoy until it exits or is stopped. Return its exit code, 0 after a drain."""
    parser = argparse.ArgumentParser(prog="front_door", description="Run Envoy, and drain it at SIGTERM.")
    parser.add_argument("admin", help="Envoy's admin interface: host:port, or the absolute path of a Unix socket")
    parser.add_argument("--fleet", type=Path, help="the fleet's file, whose `threads` Envoy gets; one without it")
    parser.add_argument("--drain-time-s", type=int, default=3, help="seconds to accept connections after SIGTERM")
    parser.add_argument("--drain-timeout-s", type=float, default=22, help="seconds for running requests to end")
    parser.add_argument("command", nargs="+", help="Envoy and its arguments")
    chosen = parser.parse_args(arguments)
    signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
    added = ["--drain-time-s", str(max(chosen.drain_time_s, 1)), "--drain-strategy", "immediate"]
    # Envoy's default, a thread for each processor, would multiply the limits of requests in flight.
    if not any(each.startswith("--concurrency") for each in chosen.command):
        try:
            added += ["--concurrency", str(1 if chosen.fleet is None else read_fleet(chosen.fleet).threads)]
        except FleetError as error:
            parser.error(str(error))
    envoy = EnvoyProcess([*chosen.command, *added], EnvoyAdmin(chosen.admin))
    signal_number = envoy.wait_for_stop()
    if signal_number is not None:
        envoy.drain(chosen.drain_time_s if signal_number is signal.SIGTERM else 0, chosen.drain_timeout_s)
    code = envoy.wait()
    return 128 - code if code < 0 else code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
