"""The TypeScript client, built as it is published, in Node through Envoy over gRPC-web and gRPC."""

from __future__ import annotations

import json
import re
import shutil
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
    printed = node("tests/e2e/clients/typescript_calls.mjs", stack.url, package)
    return [json.loads(line) for line in printed.splitlines()]


@BOTH
def test_typescript_client_streams(stack: Stack, answers: list[dict[str, Any]], at: int) -> None:
    """The stream has REST's text and the contract's events, and leaving it stops the generation."""
    body = {**rest_body(), "messages": QUESTION}
    whole = httpx.post(f"{stack.url}/v1/chat/completions", json=body, timeout=GUARD_S).json()
    assert answers[at]["text"] == whole["choices"][0]["message"]["content"]
    kinds = answers[at]["kinds"]
    assert (kinds[0], kinds[-2:]) == ("started", ["usage", "completed"])
    assert "sluice-demo" in answers[at]["models"]
    assert answers[at]["left"] == 3
    stack.until_idle()


@BOTH
def test_typescript_client_decodes_errors(answers: list[dict[str, Any]], at: int) -> None:
    """Errors have code, reason, field and request id, and a deadline has its code."""
    error = answers[at]["refusal"]
    assert (error["code"], error["reason"]) == (grpc.StatusCode.INVALID_ARGUMENT.value[0], "INVALID_FIELD")
    assert [each["field"] for each in error["violations"]] == ["n"]
    assert error["requestId"] == "of-typescript"
    assert answers[at]["late"]["code"] == grpc.StatusCode.DEADLINE_EXCEEDED.value[0]


@BOTH
def test_typescript_client_runs_tools(answers: list[dict[str, Any]], at: int) -> None:
    """`runTools` runs the call that the model makes, returns its result to the model, and ends with an answer."""
    (user, assistant, result, answer) = answers[at]["roles"]
    assert [user[0], assistant[0], result[0], answer[0]] == [2, 3, 4, 3]
    assert (assistant[1], answer[1]) == (1, 0)
    assert json.loads(result[2])["sky"] == "clear"
    assert answers[at]["answer"] == answer[2] != ""


def test_typescript_client_retries_rejected_calls(package: Path) -> None:
    """Temporary rejections are repeated after the server's delay; other calls, and streams that have begun, are not."""
    outcomes = json.loads(node("tests/e2e/clients/typescript_retries.mjs", package))
    assert outcomes == {
        "unary": ["whole", 3],
        "exhausted": ["whole", 2],
        "too often": ["Unavailable", 4],
        "other error": ["Internal", 1],
        "without retries": ["Unavailable", 1],
        "stream": ["ab", 3],
        "begun stream": ["Unavailable", 1],
        "change": ["Unavailable", 1],
        "creations": ["Unavailable", 1],
        "additions": ["Unavailable", 1],
        "uploads": ["Unavailable", 1],
        "batches": ["Unavailable", 1],
        "stored": [[["response", True, 2]] * 2, "unchanged"],
        "conversation": [[["response", True, 2]] * 2, "unchanged"],
        "background": [[["request", True, 2]] * 2, "unchanged"],
        "named": [[["response", True, 2]] * 2, "0" * 32],
        "without effect": [[["none", True, 2]] * 2, "unchanged"],
        "deadline": ["DeadlineExceeded", 1],
        "aborted": ["Canceled", 1],
    }


def test_typescript_client_has_every_service() -> None:
    """The client has every service of the contract."""
    text = (SOURCE / "src/sluice.ts").read_text()
    files = (PLAIN / "sluice" / "v1").glob("*.proto")
    services = re.findall(r"^service (\w+)", "".join(path.read_text() for path in files), re.MULTILINE)
    assert sorted(re.findall(r"createClient\((\w+),", text)) == sorted(services)


@pytest.mark.parametrize("example", [0, 1], ids=["chat", "tools"])
def test_typescript_examples_compile_and_run(stack: Stack, package: Path, example: int) -> None:
    """The README's programs compile in strict mode and print an answer."""
    code = re.findall(r"^```ts\n(.*?)^```$", (SOURCE / "README.md").read_text(), re.DOTALL | re.MULTILINE)[example]
    (package / "example.ts").write_text(code.replace("http://127.0.0.1:8080", stack.url))
    flags = ["--strict", "--module", "nodenext", "--target", "es2022", "--lib", "es2022,dom", "--types", "node"]
    command = [str(MODULES / ".bin" / "tsc"), "--ignoreConfig", *flags, "--skipLibCheck", str(package / "example.ts")]
    done = subprocess.run(command, cwd=package, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    assert node(package / "example.js").strip()


def test_typescript_client_installs_from_folder_and_archive(package: Path, tmp_path: Path) -> None:
    """`npm install` of the folder builds the package; that of the archive needs no build and no further package."""
    checkout, program = tmp_path / "checkout", "import { connect, runTools } from 'sluice-client'; connect('http://a');"
    shutil.copytree(
        SOURCE, checkout / "clients/typescript", ignore=shutil.ignore_patterns("dist", "node_modules", "gen")
    )
    shutil.copytree(PLAIN, checkout / "generated/proto")
    (checkout / "clients/typescript/node_modules").symlink_to(MODULES)
    pack: list[str | Path] = ["npm", "pack", "--silent", "--pack-destination", tmp_path]
    subprocess.run(pack, cwd=package, check=True)
    (archive,) = tmp_path.glob("*.tgz")
    for name, source in (("folder", checkout / "clients/typescript"), ("archive", archive)):
        app = tmp_path / name
        app.mkdir()
        (app / "package.json").write_text('{"private": true, "type": "module"}')
        install: list[str | Path] = ["npm", "install", "--no-audit", "--no-fund", "--prefer-offline", source]
        done = subprocess.run(install, cwd=app, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        assert ("install scripts" in done.stderr) <= (name == "folder")
        subprocess.run(["node", "--input-type=module", "--eval", program], cwd=app, check=True)
