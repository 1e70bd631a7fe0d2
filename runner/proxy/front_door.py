"""Runs Envoy so that SIGTERM loses no request: `python -m runner.proxy.front_door ADMIN [OPTIONS] -- envoy -c …`.

At SIGTERM Envoy's health checks begin to say no and its answers tell clients to connect elsewhere, while it goes on
accepting for `drain_time_s`; then it listens no more, and ends when the running requests have ended, at the latest
after `drain_timeout_s`. At SIGINT it listens no more at once: who presses Ctrl-C has no balancer to tell. A second
signal kills it. Envoy by itself would cut all running requests at either. Its own exit is this program's.
"""

import signal

if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # Ctrl-C before Envoy runs needs no traceback

import argparse
import json
import subprocess
import sys
import time
import urllib.request
from collections.abc import Sequence
from http.client import HTTPResponse

from runner.processes.lifeline import dying_with_parent
from runner.proxy.closing import listeners_of, num_waiting, turn_away

_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGCHLD)
_POLL_S = 0.1
_ADMIN_TIMEOUT_S = 2.0
_TAKING_S = 1.0  # for the connections that are made; without a hitch they are taken at once


class FrontDoor:
    """One Envoy, whose admin interface is at `admin` (host:port). The signals must be blocked in all threads."""

    def __init__(self, command: Sequence[str], admin: str) -> None:
        self._admin = admin
        # Its signals are its own matter again; only its keeper's death ends it.
        self._process = subprocess.Popen(command, preexec_fn=dying_with_parent())  # noqa: PLW1509 there is one thread

    def until_asked(self) -> signal.Signals | None:
        """Wait for a signal to stop; None if Envoy exits before."""
        while True:
            number = self._next_signal(None)
            if number is not None or self._process.poll() is not None:
                return number

    def drain(self, drain_time_s: float, timeout_s: float) -> None:
        """Stop listening after `drain_time_s`, and end Envoy when nothing runs any more, or after `timeout_s`."""
        deadline = time.monotonic() + timeout_s
        self._post("/healthcheck/fail")
        if drain_time_s:
            self._post("/drain_listeners?graceful&skip_exit")  # it only tells clients to connect elsewhere
            self._pause(drain_time_s)
        self._stop_listening()
        while self._process.poll() is None and time.monotonic() < deadline and self._num_active():
            self._pause(_POLL_S)
        self._process.terminate()

    def wait(self) -> int:
        """Envoy's exit code; a further signal kills it."""
        while self._process.poll() is None:
            self._pause(60)
        return self._process.returncode

    def _stop_listening(self) -> None:
        """Close what callers connect to, once all who have connected are taken: closing would reset the others."""
        port = int(self._admin.rpartition(":")[2])
        with listeners_of(self._process.pid, but_port=port) as listeners:
            turn_away(listeners)
            until = time.monotonic() + _TAKING_S
            self._pause(_POLL_S)  # for handshakes that have begun
            while self._process.poll() is None and time.monotonic() < until and any(map(num_waiting, listeners)):
                self._pause(_POLL_S)
        self._post("/drain_listeners")

    def _pause(self, duration_s: float) -> None:
        """Wait as long as that, or until Envoy exits; a signal kills it."""
        until = time.monotonic() + duration_s
        while self._process.poll() is None and (left_s := until - time.monotonic()) > 0:
            if self._next_signal(left_s) is not None:
                self._process.kill()

    def _next_signal(self, timeout_s: float | None) -> signal.Signals | None:
        """The next one to stop; None after the time, and when Envoy may have exited."""
        told = signal.sigwaitinfo(_SIGNALS) if timeout_s is None else signal.sigtimedwait(_SIGNALS, timeout_s)
        return None if told is None or told.si_signo == signal.SIGCHLD else signal.Signals(told.si_signo)

    def _num_active(self) -> int:
        """Requests that callers wait for; as good as none if Envoy doesn't answer."""
        try:
            with self._open("/stats?filter=downstream_rq_active&format=json", "GET") as page:
                stats = json.load(page)["stats"]
        except (OSError, ValueError):
            return 0
        return sum(each["value"] for each in stats if "name" in each and not each["name"].startswith("http.admin."))

    def _post(self, path: str) -> None:
        try:
            self._open(path, "POST").close()
        except OSError as error:
            sys.stderr.write(f"front_door: Envoy's {path} failed: {error}\n")

    def _open(self, path: str, method: str) -> HTTPResponse:
        request = urllib.request.Request(f"http://{self._admin}{path}", method=method)
        answer: HTTPResponse = urllib.request.urlopen(request, timeout=_ADMIN_TIMEOUT_S)  # noqa: S310 always http
        return answer


def main(arguments: Sequence[str]) -> int:
    """Run Envoy until it exits or is stopped; returns its exit code, 0 after a drain."""
    parser = argparse.ArgumentParser(prog="front_door", description="Run Envoy, and drain it at SIGTERM.")
    parser.add_argument("admin", help="host:port of Envoy's admin interface")
    parser.add_argument("--drain-time-s", type=int, default=3, help="how long to accept after SIGTERM")
    parser.add_argument("--drain-timeout-s", type=float, default=22, help="how long running requests may take to end")
    parser.add_argument("command", nargs="+", help="Envoy and its arguments")
    chosen = parser.parse_args(arguments)
    signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
    drain = ["--drain-time-s", str(max(chosen.drain_time_s, 1)), "--drain-strategy", "immediate"]
    door = FrontDoor([*chosen.command, *drain], chosen.admin)
    asked = door.until_asked()
    if asked is not None:
        door.drain(chosen.drain_time_s if asked is signal.SIGTERM else 0, chosen.drain_timeout_s)
    code = door.wait()
    return 128 - code if code < 0 else code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
