"""The project's own client for Python, with the oldest and newest of what it needs, and beside the server's code."""

import ast
import json
import os
import subprocess
import sys
import typing
from pathlib import Path

import pytest
from sluice.v1 import chat_pb2 as server_chat_pb2
from sluice_client import request
from sluice_client.v1 import chat_pb2, completion_pb2, embedding_pb2, response_pb2, sampling_pb2, serving_pb2

from tests.e2e.stack import ROOT, Stack

HERE = Path(__file__).parent
CHECKS = HERE / "sluice_client_checks.py"
ENVIRONMENTS = ("sluice_oldest", "sluice_newest")
NAMES = [node.name for node in ast.parse(CHECKS.read_text()).body if isinstance(node, ast.FunctionDef)]


@pytest.fixture(scope="module")
def results(stack: Stack) -> dict[str, dict[str, str | None]]:
    """What came of each environment's checks."""
    source = {**os.environ, "PYTHONPATH": str(ROOT / "clients/python/src")}
    found = {}
    for name in ENVIRONMENTS:
        python = ROOT / ".venvs" / name / "bin" / "python"
        command = [str(python), "-W", "error", str(HERE / "run_checks.py"), str(CHECKS), stack.door, ""]
        done = subprocess.run(command, capture_output=True, text=True, timeout=110, check=False, env=source)
        assert done.returncode == 0, done.stderr
        found[name] = json.loads(done.stdout.splitlines()[-1])
    return found


@pytest.mark.parametrize("environment", ENVIRONMENTS)
@pytest.mark.parametrize("check", [name for name in NAMES if name.startswith("check_")])
def test_client(environment: str, check: str, results: dict[str, dict[str, str | None]]) -> None:
    """Each check holds."""
    assert results[environment][check] is None, results[environment][check]


def test_both_contracts_in_one_process() -> None:
    """The client's messages and the server's are there side by side, and are the same bytes."""
    asked = request.chat_request("Hello!", {"model": "m", "temperature": 0.5, "max_tokens": 3, "priority": 1})
    same = server_chat_pb2.ChatRequest.FromString(asked.SerializeToString())
    assert same.SerializeToString(deterministic=True) == asked.SerializeToString(deterministic=True)
    assert same.sampling.temperature == 0.5
    script = "import sluice_client, sluice.v1.chat_pb2; from sluice_client.v1 import chat_pb2"
    paths = os.pathsep.join(map(str, (ROOT / "generated", ROOT / "clients/python/src")))
    subprocess.run([sys.executable, "-c", script], check=True, env={**os.environ, "PYTHONPATH": paths})


STOPPED = (sampling_pb2.SamplingParams, sampling_pb2.StopParams)
SPECIAL = {"json_schema", "json_object", "regex", "one_of", "top_logprobs"}
OUTER = {"model", "messages", "prompts", "input", "inputs", "sampling", "stopping", "serving", "logprobs", "resume"}


@pytest.mark.parametrize(
    ("options", "message", "groups"),
    [
        (request.ChatOptions, chat_pb2.ChatRequest, STOPPED),
        (
            request.CompletionOptions,
            completion_pb2.CompleteRequest,
            (sampling_pb2.SamplingParams, sampling_pb2.StopParams),
        ),
        (request.ResponseOptions, response_pb2.CreateResponseRequest, (sampling_pb2.SamplingParams,)),
        (request.EmbedOptions, embedding_pb2.EmbedRequest, ()),
    ],
)
def test_options_are_the_contracts(options: type, message: typing.Any, groups: tuple[typing.Any, ...]) -> None:
    """Each field of a request has its option: one that is new in the contract is missed here."""
    fields = set(message.DESCRIPTOR.fields_by_name) - OUTER - {"output_constraint"} | {"model"}
    for group in (*groups, serving_pb2.ServingOptions):
        fields |= set(group.DESCRIPTOR.fields_by_name)
    if message is response_pb2.CreateResponseRequest:  # whose limit has another name, and which takes no others
        fields = fields - {"max_output_tokens"} | {"max_tokens"}
    assert set(typing.get_type_hints(options)) - SPECIAL == fields
