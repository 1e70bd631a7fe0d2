"""The whole product as `make run` starts it, on free ports of the loopback address."""

import contextlib
import os
import random
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Iterator, Mapping
from pathlib import Path

from tests.waiting import GUARD_S, wait_until

ROOT = Path(__file__).resolve().parents[2]
_claims: list[int] = []  # open sockets, until the process ends
PORTS = ("envoy", "envoy_admin", "gateway", "service", "service_metrics")
# Without the embedding model, whose engine costs a fifth of the start's CPU time.
GENERATOR = "--model=sluice-demo=demo/model"
# A product whose tests hold an engine: it is not restarted and health does not fail meanwhile.
HOLDABLE = {
    "SLUICE_SERVICE_MAX_STALL_S": "1e6",
    "SLUICE_SERVICE_MAX_HEARTBEAT_AGE_S": "1e6",
    "SLUICE_SERVICE_ENGINE__REJECT_WHILE_SUSPENDED": "false",
}


def free_ports(count: int) -> list[int]:
    """Return different free ports that no other test process gets while this process lives.

    The system assigns ports from 32768 on to servers on port 0 and to every opened connection: such a port may be taken
    before a server uses it, or while a test restarts the server.
    """
    ports: list[int] = []
    for port in random.SystemRandom().sample(range(20_000, 32_768), 2_000):
        if len(ports) == count:
            return ports
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX) as claim, socket.socket() as listener:
            claim.bind(f"\0sluice-test-port-{port}")  # visible to other test processes
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(("127.0.0.1", port))
            _claims.append(claim.detach())
            ports.append(port)
    raise AssertionError("no port is free")


def child_pids(pid: int) -> list[int]:
    """Return the children of a process, each thread's oldest first, in the kernel's order, because ids are reused."""
    pids: list[int] = []
    for children in Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # a thread that has just ended
            pids += map(int, children.read_text().split())
    return pids


def command_line(pid: int) -> list[str]:
    """Return the arguments of a process's command line, or an empty list if it has ended."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().decode().split("\0")
    except (FileNotFoundError, ProcessLookupError):
        return []


def suspend(pid: int) -> None:
    """Stop a process, and return when all of its threads have stopped or ended.

    The signal alone takes effect only when the process is scheduled.
    """
    os.kill(pid, signal.SIGSTOP)
    wait_until(lambda: _thread_states(pid) <= {"T", "Z"})


def _thread_states(pid: int) -> set[str]:
    states = set()
    for stat in Path(f"/proc/{pid}/task").glob("*/stat"):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # a thread that has just ended
            states.add(stat.read_text().rpartition(")")[2].split()[0])
    return states


def is_running(pid: int) -> bool:
    """Return True if the process exists and is not a zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


class Stack:
    """One run of the runner, whose output is collected line by line.

    Endpoints are stored in `endpoints_file`, and other state in `state_folder`; both are temporary if not given.
    Without keys, all clients may change models, adapters and endpoints, unless `environment` says otherwise.
    """

    def __init__(
        self,
        *options: str,
        ports: dict[str, int] | None = None,
        endpoints_file: Path | None = None,
        state_folder: Path | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        """`environment` is added to this process's environment. Lists of models may take long on a busy machine."""
        self._folder = tempfile.TemporaryDirectory(prefix="sluice-stack-")
        self.endpoints_file = endpoints_file or Path(self._folder.name) / "endpoints.json"
        self.state_folder = state_folder or Path(self._folder.name) / "state"
        self.ports = ports or dict(zip(PORTS, free_ports(len(PORTS)), strict=True))
        flags = [f"--{name.replace('_', '-')}-port={port}" for name, port in self.ports.items()]
        flags += [f"--endpoints-file={self.endpoints_file}", f"--state-folder={self.state_folder}"]
        changes = {
            "SLUICE_SERVICE_AUTH__ALLOW_ANONYMOUS_CHANGES": "true",
            "SLUICE_GATEWAY_LOOKUP_DEADLINE_S": str(GUARD_S),
        }
        self.process = subprocess.Popen(
            [sys.executable, "-m", "runner", *flags, *options],
            cwd=ROOT,
            env={**os.environ, **changes, **(environment or {})},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self._lines: list[str] = []
        self._changed = threading.Condition()
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            with self._changed:
                self._lines.append(line)
                self._changed.notify_all()
        with self._changed:
            self._lines.append("")  # marks the end for `wait_for`
            self._changed.notify_all()

    @property
    def output(self) -> str:
        """The output so far."""
        with self._changed:
            return "".join(self._lines)

    def wait_for(self, *texts: str, timeout_s: float = GUARD_S) -> None:
        """Return when one line contains all the texts; fail if the run ends or times out first."""

        def found() -> bool:
            return any(all(text in line for text in texts) for line in self._lines)

        with self._changed:
            self._changed.wait_for(lambda: found() or self._lines[-1:] == [""], timeout_s)
            assert found(), f"{texts} not in\n{''.join(self._lines)}"

    @property
    def url(self) -> str:
        """The base URL of the public listener."""
        return f"http://127.0.0.1:{self.ports['envoy']}"

    @property
    def gateway(self) -> str:
        """The base URL of the gateway."""
        return f"http://127.0.0.1:{self.ports['gateway']}"

    def children(self) -> dict[str, int]:
        """Return the process ids of the runner's children by name, in start order.

        Service, gateway, Envoy's wrapper.
        """
        names = {"service": "service", "gateway": "gateway", "runner.proxy.front_door": "envoy"}
        return {
            names[Path(word).name]: pid
            for pid in child_pids(self.process.pid)
            for word in command_line(pid)[1:3]
            if Path(word).name in names
        }

    @property
    def envoy_pid(self) -> int:
        """The process id of Envoy itself."""
        (pid,) = child_pids(self.children()["envoy"])
        return pid

    def workers(self) -> list[int]:
        """Return the processes of the service's engines, the generating model's first."""
        return child_pids(self.children()["service"])

    @contextlib.contextmanager
    def engine_held(self, number: int = 0) -> Iterator[None]:
        """Stop an engine's process for the block, so that none of its requests can progress or end.

        The product's environment must include `HOLDABLE`.
        """
        worker = self.workers()[number]
        suspend(worker)
        try:
            yield
        finally:
            with contextlib.suppress(ProcessLookupError):  # a killed service's engine
                os.kill(worker, signal.SIGCONT)

    def generation_lines(self) -> list[str]:
        """Return the service's access log lines of generating calls that have reached a model and ended."""
        return [line for line in self.output.splitlines() if "sluice.access" in line and '"completion_tokens"' in line]

    def metric(self, name: str) -> float:
        """Return the sum over all label sets of one sample of the service's metrics page."""
        with urllib.request.urlopen(
            f"http://127.0.0.1:{self.ports['service_metrics']}/metrics", timeout=GUARD_S
        ) as page:
            text = page.read().decode()
        values = re.findall(rf"^{re.escape(name)}(?:{{.*}})? (\S+)$", text, re.MULTILINE)
        assert values, f"{name} is not in\n{text}"
        return sum(map(float, values))

    def until_idle(self) -> None:
        """Return when the engine runs nothing, the queue is empty, and every block is free."""
        deadline = time.monotonic() + GUARD_S
        while time.monotonic() < deadline:
            busy = {
                name: self.metric(name) for name in ("sluice_engine_sequences_running", "sluice_engine_queue_depth")
            }
            busy["blocks"] = self.metric("sluice_engine_kv_blocks_used")
            if not any(busy.values()):
                return
            time.sleep(0.05)
        raise AssertionError(f"not idle: {busy}")

    def stop(self) -> int:
        """Send SIGINT, as Ctrl-C does, and return the exit code."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
        return self.wait()

    def wait(self, timeout_s: float = GUARD_S) -> int:
        """Wait for the end and return the exit code."""
        try:
            return self.process.wait(timeout_s)
        finally:
            self.process.kill()
            self._reader.join()
            assert self.process.stdout is not None
            self.process.stdout.close()
            self._folder.cleanup()


@contextlib.contextmanager
def started(*options: str, environment: Mapping[str, str] | None = None) -> Iterator[Stack]:
    """Yield the product when it is ready, and stop it at the end, which must succeed."""
    stack = Stack(*options, environment=environment)
    try:
        stack.wait_for("sluice is ready.")
        yield stack
    finally:
        assert stack.stop() == 0, stack.output
