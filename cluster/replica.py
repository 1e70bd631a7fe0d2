"""A replica: a process of the service on this node, and its reports."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Iterator, Mapping
from typing import Any, Final

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

from cluster.load import Load, Page
from cluster.plan import ReplicaPhase
from cluster.report import Report
from runner.processes.lifeline import command_dying_with_parent
from runner.proxy.eds import Host

_TIMEOUT_S: Final = 2.0
_LOOPBACK: Final = "127.0.0.1"


class Replica:
    """The service as a child process that ends with this process. One thread uses it."""

    def __init__(self, revision: str, settings: Mapping[str, Any], address: str) -> None:
        """`address` is the node's address as reachable from Envoy."""
        self._revision = revision
        self._is_draining = self._has_served = False
        self._page = Page()
        self._last_line = ""
        port, self._metrics_port = _free_ports(address, _LOOPBACK)
        self._host = Host(address, port)
        addresses = [f"--host={address}", f"--port={port}"]
        addresses += [f"--metrics-host={_LOOPBACK}", f"--metrics-port={self._metrics_port}"]
        with _in_memory(json.dumps(dict(settings))) as file:  # JSON is valid YAML
            self._process = self._start([f"--config=/proc/self/fd/{file}", *addresses], file)
        self._log = threading.Thread(target=self._copy_log, daemon=True)
        self._log.start()

    def report(self) -> Report:
        """Return the current state."""
        if (code := self._process.poll()) is not None:
            if self._is_draining:
                return self._report(ReplicaPhase.ENDED)
            self._log.join(_TIMEOUT_S)  # for its last line
            return self._report(ReplicaPhase.FAILED, f"exited with code {code}: {self._last_line}")
        if self._is_draining:
            return self._report(ReplicaPhase.DRAINING)
        if not self._has_served:
            self._has_served = self._is_serving("startup") is True
        elif self._is_serving("live") is False:
            return self._report(ReplicaPhase.FAILED, "an engine of its service has failed permanently")
        return self._report(ReplicaPhase.SERVING if self._has_served else ReplicaPhase.STARTING)

    def drain(self) -> None:
        """Let the service finish running requests and exit."""
        self._is_draining = True
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(signal.SIGTERM)

    @staticmethod
    def _start(flags: list[str], file: int) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            command_dying_with_parent(
                [sys.executable, "-m", "service", *flags]
            ),  # a fork fails while gRPC's threads run
            stdin=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            pass_fds=(file,),
        )

    def _report(self, phase: ReplicaPhase, problem: str = "") -> Report:
        return Report(self._revision, phase, self._host, self._read_load(), problem)

    def _is_serving(self, name: str) -> bool | None:
        """Return the health of a service name, or None if there is no answer."""
        with grpc.insecure_channel(str(self._host), [("grpc.use_local_subchannel_pool", 1)]) as channel:
            stub: Any = health_pb2_grpc.HealthStub(channel)  # it ships no types
            try:
                answer = stub.Check(health_pb2.HealthCheckRequest(service=name), timeout=_TIMEOUT_S)
            except grpc.RpcError:
                return None
        return bool(answer.status == health_pb2.HealthCheckResponse.SERVING)

    def _read_load(self) -> Load:
        try:
            with urllib.request.urlopen(f"http://{_LOOPBACK}:{self._metrics_port}/metrics", timeout=_TIMEOUT_S) as page:
                now = Page.parse(page.read().decode())
        except (OSError, ValueError):
            return Load()
        load, self._page = now.load_since(self._page), now
        return load

    def _copy_log(self) -> None:
        """Copy the service's log to this process's standard error, which Ray stores."""
        assert self._process.stderr is not None  # noqa: S101  it was made with PIPE
        with self._process.stderr as log:
            for line in log:
                text = line.decode(errors="replace").rstrip()
                self._last_line = text or self._last_line
                sys.stderr.write(f"{text}\n")
                sys.stderr.flush()


@contextlib.contextmanager
def _in_memory(text: str) -> Iterator[int]:
    """Yield the descriptor of an in-memory file, because settings may contain passwords that must not stay on disk."""
    file = os.memfd_create("service.yaml")
    try:
        os.write(file, text.encode())
        yield file
    finally:
        os.close(file)


def _free_ports(*addresses: str) -> list[int]:
    """Return a free port per address. If another process takes it first, the service exits and is replaced."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in addresses]
        for each, address in zip(sockets, addresses, strict=True):
            each.bind((address, 0))
        return [each.getsockname()[1] for each in sockets]
