"""`make run`: how it stops, restarts processes, and rejects invalid settings."""

import json
import os
import re
import signal
import subprocess
import time
from contextlib import suppress
from functools import partial
from pathlib import Path

import grpc
import httpx
import pytest
from sluice.v1 import chat_pb2, chat_pb2_grpc, sampling_pb2

from tests.e2e.stack import GENERATOR, ROOT, Stack, is_running, suspend
from tests.service.contract.fakes import user
from tests.waiting import GUARD_S, wait_until


def test_run_greets_and_stops_in_order() -> None:
    """The printed curl command streams; Ctrl-C stops Envoy, gateway and service in this order, with exit code 0."""
    stack = Stack()
    try:
        stack.wait_for("Ctrl-C stops everything.")
        (command,) = re.findall(r"^  (curl -N .*)$", stack.output, re.MULTILINE)
        done = subprocess.run(command, shell=True, capture_output=True, text=True, timeout=GUARD_S, check=True)  # noqa: S602 what a newcomer pastes
        assert done.stdout.endswith("data: [DONE]\n\n")
        first, *rest = [
            json.loads(data)["choices"][0] for data in re.findall(r"^data: (\{.*)$", done.stdout, re.MULTILINE)
        ]
        assert first["delta"]["role"] == "assistant"
        assert "".join(each["delta"].get("content", "") for each in rest)  # possibly in one chunk
        assert rest[-1]["finish_reason"] == "stop"
        pids = stack.children()
    finally:
        code = stack.stop()
    assert code == 0, stack.output
    assert list(pids) == ["service", "gateway", "envoy"]
    assert not [pid for pid in pids.values() if is_running(pid)]


def test_run_restarts_a_dead_process_while_the_others_continue() -> None:
    """The gateway's death ends no gRPC stream; killed Envoy and service are restarted; no process is left."""
    stack = Stack("--model=demo=demo/model")
    try:
        stack.wait_for("sluice is ready.")
        children = stack.children()
        assert list(children) == ["service", "gateway", "envoy"], stack.output
        before = children | {"real envoy": stack.envoy_pid}
        with grpc.insecure_channel(stack.url.removeprefix("http://")) as channel:
            call = chat_pb2_grpc.ChatServiceStub(channel).StreamChat(chat_request("demo", max_tokens=1500))
            first = next(call)
            suspend(stack.process.pid)  # so that it does not restart the gateway yet
            os.kill(before["gateway"], signal.SIGKILL)
            wait_until(lambda: not is_running(before["gateway"]))
            ready = httpx.get(f"{stack.url}/readyz", timeout=GUARD_S)  # answered by Envoy
            stack.process.send_signal(signal.SIGCONT)
            assert ready.status_code == 503
            stack.wait_for("run: gateway exited with code -9; it will be restarted in 0.5 s")
            rest = list(call)
        assert first.HasField("started")
        assert rest[-1].HasField("completed")
        until_served(stack, "demo")
        os.kill(before["real envoy"], signal.SIGKILL)
        stack.wait_for("run: envoy exited with code 137; it will be restarted in 0.5 s")
        until_served(stack, "demo")
        workers = stack.workers()
        suspend(workers[0])  # it handles no signal and notices no closed socket
        os.kill(before["service"], signal.SIGKILL)
        stack.wait_for("run: service exited with code -9; it will be restarted in 0.5 s")
        until_served(stack, "demo")
        after = stack.children() | {"real envoy": stack.envoy_pid}
        pids = [*before.values(), *workers, *after.values(), *stack.workers()]
    finally:
        code = stack.stop()
    assert code == 0, stack.output
    assert not set(before.values()) & set(after.values())
    wait_until(partial(none_runs, pids))


def test_run_stops_after_five_deaths_of_a_process() -> None:
    """At the fifth death within ten minutes the run logs one line, stops the others, and exits with code 1."""
    stack = Stack("--model=demo=demo/model")
    try:
        stack.wait_for("sluice is ready.")
        pids = [*stack.children().values(), *stack.workers()]
        for delay in ("0.5", "1", "2", "4"):
            os.kill(until_child(stack, "gateway"), signal.SIGKILL)
            stack.wait_for(f"run: gateway exited with code -9; it will be restarted in {delay} s")
        os.kill(until_child(stack, "gateway"), signal.SIGKILL)
        assert stack.wait() == 1
    finally:
        stack.stop()
    assert re.search(
        r"^run: gateway has exited 5 times in \d+ s, the last time with code -9, and is not ",
        stack.output,
        re.MULTILINE,
    )
    wait_until(partial(none_runs, pids))


def test_killed_run_leaves_no_process() -> None:
    """After SIGKILL of the runner no child, no Envoy and no engine is left."""
    stack = Stack("--model=demo=demo/model")
    try:
        stack.wait_for("sluice is ready.")
        pids = [*stack.children().values(), stack.envoy_pid, *stack.workers()]
        assert len(pids) == 5
        stack.process.kill()
        wait_until(lambda: not [pid for pid in pids if is_running(pid)])
    finally:
        stack.stop()


def test_second_ctrl_c_ends_the_run_immediately() -> None:
    """A second Ctrl-C does not wait for a running request; no process is left."""
    stack = Stack("--model=demo=demo/model")
    try:
        stack.wait_for("sluice is ready.")
        pids = [*stack.children().values(), stack.envoy_pid, *stack.workers()]
        with grpc.insecure_channel(stack.url.removeprefix("http://")) as channel:
            call = chat_pb2_grpc.ChatServiceStub(channel).StreamChat(chat_request("demo", n=16, max_tokens=1500))
            next(call)
            suspend(stack.workers()[0])  # so that the request cannot end
            stack.process.send_signal(signal.SIGINT)
            stack.wait_for("run: stopping when the running requests have ended; a second signal kills")
            stack.process.send_signal(signal.SIGINT)
            stack.wait()
            with pytest.raises(grpc.RpcError):
                list(call)
    finally:
        stack.stop()
    wait_until(partial(none_runs, pids))


def test_ctrl_c_during_the_start_leaves_no_process() -> None:
    """Ctrl-C during the start prints no traceback, exits with 0 or the signal, and leaves no process."""
    for wait_s in (0.0, 0.1, 0.2, 0.6, 0.9, 1.2, 2.0):
        stack = Stack("--model=demo=demo/model")
        time.sleep(wait_s)
        pids = [*stack.children().values()]
        # Before the program's first line Python itself prints a traceback.
        assert stack.stop() in {0, -signal.SIGINT} or "KeyboardInterrupt" in stack.output, stack.output
        wait_until(partial(none_runs, pids))
        own_line = rf'File "{ROOT}/(?!\.venv/|runner/__main__\.py", line 3,)'  # line 3 imports what handles the signal
        assert not re.search(own_line, stack.output), stack.output


def chat_request(model: str, n: int = 1, max_tokens: int = 20) -> chat_pb2.ChatRequest:
    """Return a chat that ends only at max_tokens.

    Its text is drawn, because speculation would generate repetition at once.
    """
    stopping = sampling_pb2.StopParams(max_tokens=max_tokens, ignore_eos=True)
    drawn = sampling_pb2.SamplingParams(temperature=1, top_p=1)
    return chat_pb2.ChatRequest(model=model, messages=[user("Count to 1000.")], n=n, stopping=stopping, sampling=drawn)


def until_served(stack: Stack, model: str) -> None:
    """Return when REST and gRPC respond."""

    def served() -> bool:
        body = {"model": model, "messages": [{"role": "user", "content": "hi"}], "max_tokens": 1}
        try:
            rest = httpx.post(f"{stack.url}/v1/chat/completions", json=body, timeout=GUARD_S)
            with grpc.insecure_channel(stack.url.removeprefix("http://")) as channel:
                chat_pb2_grpc.ChatServiceStub(channel).Chat(chat_request(model, max_tokens=1))
        except (httpx.TransportError, grpc.RpcError):
            return False
        return rest.status_code == 200

    wait_until(served)


def none_runs(pids: list[int]) -> bool:
    """Return True if all processes have ended."""
    return not any(map(is_running, pids))


def until_child(stack: Stack, name: str) -> int:
    """Return the process id of a child as soon as it runs."""
    wait_until(lambda: name in stack.children())
    return stack.children()[name]


def policies(pid: int) -> set[int]:
    """Return the scheduling policies of a process's threads."""
    found = set()
    for task in Path(f"/proc/{pid}/task").iterdir():
        with suppress(ProcessLookupError):  # the thread has just ended
            found.add(os.sched_getscheduler(int(task.name)))
    return found


def test_run_protects_computing_threads_from_preemption(stack: Stack) -> None:
    """Only engines have the normal policy, because threads of a step wait for each other."""
    for pid in (*stack.children().values(), stack.envoy_pid):
        assert policies(pid) == {os.SCHED_BATCH}
    assert stack.workers()
    for pid in stack.workers():
        assert policies(pid) == {os.SCHED_OTHER}


def test_run_rejects_a_port_in_use(stack: Stack) -> None:
    """The error has one line per port, with its setting, and nothing is started."""
    second = Stack(ports=stack.ports)
    assert second.wait() == 1
    lines = second.output.splitlines()
    assert len(lines) == len(stack.ports)
    for line in lines:
        assert re.fullmatch(r"run: cannot listen on 127\.0\.0\.1:\d+ .*SLUICE_\w+_PORT", line)
    assert httpx.get(f"{stack.url}/readyz", timeout=GUARD_S).status_code == 200


def test_run_rejects_a_missing_folder(tmp_path: Path) -> None:
    """The error about a folder without a model is one line with its path."""
    stack = Stack(f"--model=other={tmp_path / 'nowhere'}")
    assert stack.wait() == 1
    assert stack.output.startswith(f"run: model other: {tmp_path / 'nowhere'} has no config.json; ")
    assert stack.output.count("\n") == 1


def test_run_on_an_ipv6_address() -> None:
    """All three processes listen on the address, which is printed in brackets."""
    stack = Stack(GENERATOR, "--host", "::1")
    try:
        stack.wait_for("Ctrl-C stops everything.")
        for name in ("envoy", "gateway"):
            url = f"http://[::1]:{stack.ports[name]}"
            assert url in stack.output
            assert httpx.get(f"{url}/v1/models", timeout=GUARD_S).json()["data"]
        assert f"[::1]:{stack.ports['service']}   gRPC" in stack.output
    finally:
        code = stack.stop()
    assert code == 0, stack.output


def test_run_without_authentication_on_a_public_address() -> None:
    """The flag applies to all processes, and so does the variable."""
    for options, environment in ((["--allow-anonymous"], {}), ([], {"SLUICE_ALLOW_ANONYMOUS": "true"})):
        stack = Stack(GENERATOR, "--host", "0.0.0.0", *options, environment=environment)  # noqa: S104  the tested address
        try:
            stack.wait_for("Ctrl-C stops everything.")
        finally:
            code = stack.stop()
        assert code == 0, stack.output


def test_reason_of_a_failed_start_is_the_last_line(tmp_path: Path) -> None:
    """The last line is the process's own error, after its log."""
    file = tmp_path / "service.yaml"
    file.write_text("prot: 1\nmax_concurrent_calls: 0")
    stack = Stack(f"--config={file}")
    assert stack.wait() == 1
    reason = "max_concurrent_calls: Input should be greater than or equal to 1"
    assert "sluice-service: prot: unknown setting; did you mean port?\n" in stack.output
    assert stack.output.splitlines()[-1] == f"run: service exited with code 2: sluice-service: {reason}"


def test_run_rejects_a_folder_that_cannot_be_created(tmp_path: Path) -> None:
    """The error about the folder of the endpoints' file is one line with its path."""
    (tmp_path / "file").touch()
    stack = Stack(endpoints_file=tmp_path / "file" / "endpoints.json")
    assert stack.wait() == 1
    assert stack.output == f"run: endpoints_file {tmp_path / 'file' / 'endpoints.json'}: File exists\n"


def test_run_rejects_an_invalid_setting() -> None:
    """The error has the setting's name, and the exit code is 2."""
    stack = Stack("--gateway-port=99999")
    assert stack.wait() == 2
    assert "gateway_port" in stack.output
