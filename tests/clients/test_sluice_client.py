"""The project's own Python client, with its oldest and newest dependencies and alongside the server."""

import ast
import importlib
import json
import os
import subprocess
import sys
import typing
from pathlib import Path

import numpy as np
import pytest
import sluice_client
from sluice.v1 import chat_pb2 as server_chat_pb2
from sluice.v1 import rpc_pb2
from sluice_client import methods, request
from sluice_client.v1 import (
    chat_pb2,
    completion_pb2,
    embedding_pb2,
    error_pb2,
    prompt_pb2,
    rank_pb2,
    response_pb2,
    sampling_pb2,
    serving_pb2,
)

from service.interceptors.rpcs import RPCS
from tests.e2e.stack import ROOT, Stack
from tests.waiting import GUARD_S

HERE = Path(__file__).parent
CHECKS = HERE / "sluice_client_checks.py"
ENVIRONMENTS = ("sluice_oldest", "sluice_newest")
NAMES = [node.name for node in ast.parse(CHECKS.read_text()).body if isinstance(node, ast.FunctionDef)]


@pytest.fixture(scope="module")
def results(stack: Stack) -> dict[str, dict[str, str | None]]:
    """The results of each environment's checks."""
    source = {**os.environ, "PYTHONPATH": os.pathsep.join((str(ROOT / "clients/python/src"), str(ROOT)))}
    found = {}
    for name in ENVIRONMENTS:
        python = ROOT / ".venvs" / name / "bin" / "python"
        command = [str(python), "-W", "error", str(HERE / "run_checks.py"), str(CHECKS), stack.url, ""]
        done = subprocess.run(command, capture_output=True, text=True, timeout=GUARD_S, check=False, env=source)
        assert done.returncode == 0, done.stderr
        found[name] = json.loads(done.stdout.splitlines()[-1])
    return found


@pytest.mark.parametrize("environment", ENVIRONMENTS)
@pytest.mark.parametrize("check", [name for name in NAMES if name.startswith("check_")])
def test_client(environment: str, check: str, results: dict[str, dict[str, str | None]]) -> None:
    """Each check passes in each environment."""
    assert results[environment][check] is None, results[environment][check]


def test_both_contracts_in_one_process() -> None:
    """The client's and the server's messages can be imported together, and serialize to the same bytes."""
    message = request.chat_request("Hello!", {"model": "m", "temperature": 0.5, "max_tokens": 3, "priority": 1})
    same = server_chat_pb2.ChatRequest.FromString(message.SerializeToString())
    assert same.SerializeToString(deterministic=True) == message.SerializeToString(deterministic=True)
    assert same.sampling.temperature == 0.5
    script = "import sluice_client, sluice.v1.chat_pb2; from sluice_client.v1 import chat_pb2"
    paths = os.pathsep.join(map(str, (ROOT / "generated", ROOT / "clients/python/src")))
    subprocess.run([sys.executable, "-c", script], check=True, env={**os.environ, "PYTHONPATH": paths})


SPECIAL = {"json_schema", "json_object", "regex", "one_of", "top_logprobs"}
GROUPS = (sampling_pb2.SamplingParams, sampling_pb2.StopParams, serving_pb2.ServingOptions)


@pytest.mark.parametrize(
    ("options", "messages"),
    [
        (request.ChatOptions, (chat_pb2.ChatRequest, *GROUPS)),
        (request.CompletionOptions, (completion_pb2.CompleteRequest, *GROUPS)),
        (request.ResponseOptions, (response_pb2.CreateResponseRequest, *GROUPS)),
        (request.EmbedOptions, (embedding_pb2.EmbedRequest, serving_pb2.ServingOptions)),
        (request.RankOptions, (rank_pb2.RankRequest, rank_pb2.RankOptions, serving_pb2.ServingOptions)),
    ],
)
def test_client_options_are_fields_of_the_contract(options: type, messages: tuple[typing.Any, ...]) -> None:
    """Each option has a field in one of these messages, except the few listed here."""
    fields = {name for message in messages for name in message.DESCRIPTOR.fields_by_name}
    assert set(typing.get_type_hints(options)) - SPECIAL <= fields


@pytest.mark.parametrize("ids", [[1, 2], np.array([1, 2]), [np.int64(1), np.int64(2)], (np.int32(1), 2)])
def test_token_ids_of_any_integer_type(ids: typing.Any) -> None:
    """Integers of NumPy are token ids, too, alone and in an array."""
    assert [list(each.token_ids.ids) for each in request.complete_request(ids, {}).prompts] == [[1, 2]]


@pytest.mark.parametrize("prompts", [[None], [b"text"], [[1, 2]], [1.0, 2.0], ["a", 1], [1, "a"], [1, 2.5]])
def test_other_types_of_prompts_are_rejected(prompts: typing.Any) -> None:
    """A prompt of another type is not sent as its text."""
    with pytest.raises(TypeError):
        request.complete_request(prompts, {})
    with pytest.raises(TypeError):
        request.embed_request(prompts, {})


def test_prompts_may_be_empty_or_mixed() -> None:
    """Texts and Prompt messages can be mixed; the server rejects an empty list."""
    mixed: typing.Any = ["a", prompt_pb2.Prompt(text="b")]
    assert [each.text for each in request.complete_request(mixed, {}).prompts] == ["a", "b"]
    assert not request.complete_request([], {}).prompts


def test_every_method_is_declared() -> None:
    """Each method of the contract is one of `methods`, with its types; those without changes are retried."""
    files = (ROOT / "proto/sluice/v1").glob("*.proto")
    modules = [importlib.import_module(f"sluice_client.v1.{path.stem}_pb2") for path in files]
    services = [service for module in modules for service in module.DESCRIPTOR.services_by_name.values()]
    declared = {f"/{service.full_name}/{method.name}": method for service in services for method in service.methods}
    known = {each.path: each for each in vars(methods).values() if isinstance(each, methods.Method)}
    assert known.keys() == declared.keys()
    for path, method in declared.items():
        types = known[path].request.DESCRIPTOR, known[path].answer.DESCRIPTOR
        assert (types, known[path].is_stream) == ((method.input_type, method.output_type), method.server_streaming)
    config, once = json.loads(sluice_client.SERVICE_CONFIG)["methodConfig"]
    whole = {each["service"] for each in config["name"] if "method" not in each}
    single = {f"/{each['service']}/{each['method']}" for each in config["name"] if "method" in each}
    retried = {path for path in declared if path in single or path.split("/")[1] in whole}
    assert retried == {
        f"/{name}" for name, rpc in RPCS.items() if name.startswith("sluice.") and rpc.kind != rpc_pb2.RPC_KIND_CHANGE
    }
    assert {f"/{each['service']}/{each['method']}" for each in once["name"]} < retried


def test_reason_name_returns_the_strings_of_the_wire() -> None:
    """`reason_name` returns the strings of received errors."""
    assert sluice_client.reason_name(error_pb2.ERROR_REASON_MODEL_NOT_FOUND) == "MODEL_NOT_FOUND"
