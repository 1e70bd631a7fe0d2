"""The TypeScript client, built as it is published, in Node through Envoy over gRPC-web and gRPC."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import grpc
import httpx
import pytest

from tests.e2e.answers.test_chat import rest_body
from tests.e2e.stack import ROOT, Stack
from tests.waiting import GUARD_S
from tools.contract.typescript_client import MODULES, PLAIN, SOURCE, build

QUESTION = [{"role": "user", "content": "What is the capital of France?"}]
BOTH = pytest.mark.parametrize("at", [0, 1], ids=["grpc-web", "grpc"])


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of the built package."""
    folder = tmp_path_factory.mktemp("npm") / "sluice-client"
    build(folder)
    return folder


def node(*arguments: str | Path) -> str:
    """Return the output of a Node program."""
    done = subprocess.run(["node", *arguments], cwd=ROOT, capture_output=True, text=True, timeout=GUARD_S, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def answers(stack: Stack, package: Path) -> list[dict[str, Any]]:
    """Return the client's results, over gRPC-web and over gRPC."""
    printed = node("tests/e2e/clients/typescript_calls.mjs", stack.door, package)
    return [json.loads(line) for line in printed.splitlines()]


@BOTH
def test_it_streams(stack: Stack, answers: list[dict[str, Any]], at: int) -> None:
    """The stream has REST's text and the contract's events, and leaving it stops the generation."""
    body = {**rest_body(), "messages": QUESTION}
    whole = httpx.post(f"{stack.door}/v1/chat/completions", json=body, timeout=GUARD_S).json()
    assert answers[at]["text"] == whole["choices"][0]["message"]["content"]
    kinds = answers[at]["kinds"]
    assert (kinds[0], kinds[-2:]) == ("started", ["usage", "completed"])
    assert "sluice-demo" in answers[at]["models"]
    assert answers[at]["left"] == 3
    stack.until_idle()


@BOTH
def test_it_decodes_errors(answers: list[dict[str, Any]], at: int) -> None:
    """Errors have code, reason, field and request id, and a deadline has its code."""
    error = answers[at]["refusal"]
    assert (error["code"], error["reason"]) == (grpc.StatusCode.INVALID_ARGUMENT.value[0], "INVALID_FIELD")
    assert [each["field"] for each in error["violations"]] == ["n"]
    assert error["requestId"] == "of-typescript"
    assert answers[at]["late"]["code"] == grpc.StatusCode.DEADLINE_EXCEEDED.value[0]


def test_it_has_every_service() -> None:
    """The client has every service of the contract."""
    text = (SOURCE / "src/sluice.ts").read_text()
    services = re.findall(r"^service (\w+)", "".join(path.read_text() for path in PLAIN.rglob("*.proto")), re.MULTILINE)
    assert sorted(re.findall(r"createClient\((\w+),", text)) == sorted(services)


def test_its_example_compiles_and_runs(stack: Stack, package: Path) -> None:
    """The README's program compiles in strict mode and prints an answer."""
    (code,) = re.findall(r"^```ts\n(.*?)^```$", (SOURCE / "README.md").read_text(), re.DOTALL | re.MULTILINE)
    (package / "example.ts").write_text(code.replace("http://127.0.0.1:8080", stack.door))
    flags = ["--strict", "--module", "nodenext", "--target", "es2022", "--lib", "es2022,dom", "--types", "node"]
    command = [str(MODULES / ".bin" / "tsc"), "--ignoreConfig", *flags, "--skipLibCheck", str(package / "example.ts")]
    done = subprocess.run(command, cwd=package, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    assert node(package / "example.js").strip()
