"""The programs in examples/, one per language: the toolchain of each, and its output against a running product."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass

import httpx

from tests.e2e.stack import ROOT
from tests.waiting import GUARD_S

FOLDER = ROOT / "examples"
JARS = "/usr/share/java"
GO = "/usr/share/gocode/src/google.golang.org"
TIMEOUT_S = 280


@dataclass(frozen=True, slots=True)
class Example:
    """One example. `needs` are commands, or paths of files if they contain a slash."""

    name: str
    needs: tuple[str, ...]

    def missing(self) -> list[str]:
        """Return the parts of the toolchain that this machine lacks."""
        return [each for each in self.needs if not (shutil.which(each) or ("/" in each and (ROOT / each).exists()))]

    def run(self, target: str) -> dict[str, str]:
        """Build the example and run it against Envoy. Return its output for each of its five calls."""
        command = ["make", "--silent", "-C", str(FOLDER / self.name), f"TARGET={target}", f"PYTHON={sys.executable}"]
        environment = {**os.environ, "PYTHONPATH": str(ROOT / "clients/python/src")}
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=TIMEOUT_S, env=environment, errors="replace"
        )
        if done.returncode != 0:
            raise ExampleError(f"{self.name} ended with {done.returncode}\n{done.stdout}{done.stderr}")
        return dict(re.findall(r"^(\w+): (.*)$", done.stdout, re.MULTILINE))


class ExampleError(Exception):
    """An example failed; the message is its output."""


EXAMPLES = (
    Example("go", ("go", "protoc", "protoc-gen-go", "protoc-gen-go-grpc", f"{GO}/grpc", f"{GO}/protobuf")),
    Example("java", ("javac", "protoc", "grpc_java_plugin", f"{JARS}/grpc-netty.jar", f"{JARS}/netty-codec-http2.jar")),
    Example("cpp", ("g++", "protoc", "grpc_cpp_plugin", "pkg-config", "/usr/include/grpcpp/grpcpp.h")),
    Example("ruby", ("ruby", "grpc_tools_ruby_protoc")),
    Example("php", ("php", "protoc", "/usr/share/php/Google/Protobuf/Any.php")),
    Example("node", ("node", "examples/node_modules/@grpc/grpc-js")),
    Example("typescript", ("node", "protoc", "examples/node_modules/.bin/tsc")),
    Example("python", ()),
    Example("browser", ("node", "protoc", "examples/node_modules/.bin/esbuild", "/usr/bin/chromium-headless-shell")),
)


def expected_answer(url: str) -> str:
    """Return the answer to the examples' first question, over REST."""
    messages = [{"role": "user", "content": "What is the capital of France?"}]
    body = {"model": "sluice-demo", "temperature": 0, "messages": messages}
    answer = httpx.post(f"{url}/v1/chat/completions", json=body, timeout=GUARD_S).json()
    return str(answer["choices"][0]["message"]["content"])


def faults(said: dict[str, str], answer: str) -> list[str]:
    """Return the wrong parts of an example's output. Each language spells statuses as its library does."""
    plain = {name: re.sub(r"[^A-Z]", "", text.upper()) for name, text in said.items()}
    checks = {
        "streams": said.get("answer", "").strip() == answer,
        "keeps deadlines": plain.get("deadline") == "DEADLINEEXCEEDED",
        "cancels": plain.get("cancel") in {"CANCELLED", "CANCELED"},
        "decodes errors": plain.get("error") == "INVALIDARGUMENTINVALIDFIELD"
        and said.get("field", "").startswith("sampling.temperature must be"),
        "calls tools": re.fullmatch(r'get_weather \{\s*"city"\s*:\s*".*"\s*\}', said.get("tool", "")) is not None,
    }
    return [name for name, holds in checks.items() if not holds]
