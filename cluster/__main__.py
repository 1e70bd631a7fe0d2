"""`sluice ray DEPLOYMENT`: run replicas on a Ray cluster and publish them to Envoy, until a signal.

The replicas outlive this process, and its next start adopts the running ones. It runs on Envoy's host, which is a node
of the cluster, and reloads the deployment when the file changes.
"""

from __future__ import annotations

import argparse
import signal
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

from cluster.deployment import DeploymentError, read_deployment
from cluster.keeper import TICK_S, Keeper
from process.logs.lines import Lines
from runner.proxy.production import write_first_hosts


def _changes(path: Path) -> Callable[[], bool]:
    """Return a function that returns True if the file has changed since the last call."""

    def state() -> tuple[int, int] | None:
        try:
            found = path.stat()
        except OSError:
            return None
        return found.st_mtime_ns, found.st_ino

    before = state()

    def has_changed() -> bool:
        nonlocal before
        last, before = before, state()
        return before is not None and before != last

    return has_changed


def keep(path: Path, say: Callable[[str], None], stop: threading.Event, *, down: bool) -> None:
    """Maintain the deployment until `stop`, or drain it. Raise DeploymentError, ConnectionError or OSError."""
    has_changed = _changes(path)
    deployment, fleet = read_deployment(path)
    write_first_hosts(fleet)
    from cluster.nodes import Nodes  # noqa: PLC0415  Ray takes seconds to import, and may be missing

    nodes = Nodes(deployment.address, deployment.namespace)
    try:
        for number in (signal.SIGINT, signal.SIGTERM):  # after Ray has installed its own handlers
            signal.signal(number, lambda *_: stop.set())
        keeper = Keeper(deployment, fleet, nodes, say)
        say(
            "maintaining "
            + ", ".join(f"{each.name} ({each.min_replicas} to {each.max_replicas})" for each in deployment.pools)
        )
        if down:
            keeper.down(stop)
            return
        while not stop.wait(TICK_S):
            if has_changed():
                try:
                    keeper.take(read_deployment(path)[0])
                    say(f"{path} has changed and was reloaded")
                except DeploymentError as error:
                    say(f"{error}; keeping the previous deployment")
            keeper.tick()
    finally:
        nodes.close()


def main(arguments: Sequence[str]) -> int:
    """Run the command. Return the exit code: 0 after a signal, 2 for an invalid deployment."""
    parser = argparse.ArgumentParser(
        prog="sluice ray",
        description="Run and scale replicas of the service on a Ray cluster, and publish their addresses to Envoy.",
    )
    parser.add_argument("deployment", type=Path, help="YAML file; deploy/ray/deployment.yaml is an example")
    parser.add_argument("--down", action="store_true", help="drain all replicas and exit")
    chosen = parser.parse_args(arguments)
    lines = Lines(sys.stderr.fileno(), "sluice ray: {} lines were dropped".format)
    stop = threading.Event()

    def say(text: str) -> None:
        lines.write(f"sluice ray: {text}")

    try:
        keep(chosen.deployment, say, stop, down=chosen.down)
    except ModuleNotFoundError as error:
        if error.name != "ray":
            raise
        say("Ray is not installed; install it with: pip install 'sluice-llm[ray]'")
        return 2
    except (DeploymentError, ConnectionError, OSError) as error:
        say(" ".join(str(error).split()))
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
