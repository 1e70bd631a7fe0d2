"""Triton's load generator `perf_analyzer`, over gRPC, its streams, and HTTP.

Its binary is a part of tritonclient; those of current versions need glibc 2.38, that of 2.50 doesn't. It reads the
descriptions, requests every output of the model, and reads the statistics before and after its requests.
"""

import json
import os
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path
from typing import Any

ENCODER = "all-minilm-l6-v2"
MODEL = "sluice-demo"
NUM_REQUESTS, NUM_TOKENS = 6, 12
PROGRAM = Path(sys.executable).parent / "perf_analyzer"
LIBRARIES = Path(sysconfig.get_path("purelib")) / "nvidia" / "cuda_runtime" / "lib"
STREAMED = ("-i", "grpc", "--streaming", "--async")


def run(url: str, model: str, inputs: Any, *arguments: str) -> tuple[str, list[dict[str, Any]]]:
    """Send requests with these inputs. Return the report, and the recorded requests."""
    with tempfile.TemporaryDirectory() as folder:
        data, record = Path(folder, "inputs.json"), Path(folder, "record.json")
        data.write_text(json.dumps({"data": [inputs]}))
        command = [str(PROGRAM), "-m", model, "-u", url.removeprefix("http://"), f"--input-data={data}", *arguments]
        command += [f"--request-count={NUM_REQUESTS}", "--concurrency-range=2", f"--profile-export-file={record}"]
        libraries = os.pathsep.join(filter(None, (str(LIBRARIES), os.environ.get("LD_LIBRARY_PATH"))))
        done = subprocess.run(
            command, env={**os.environ, "LD_LIBRARY_PATH": libraries}, capture_output=True, text=True, check=False
        )
        report = done.stdout + done.stderr
        if done.returncode:
            return report, []
        requests: list[dict[str, Any]] = json.loads(record.read_text())["experiments"][0]["requests"]
    return report, requests


def succeeded(report: str, requests: list[dict[str, Any]]) -> None:
    """All requests have succeeded, by the client's count and by the server's statistics."""
    assert len(requests) == NUM_REQUESTS, report
    assert f"Successful request count: {NUM_REQUESTS}\n" in report, report
    assert "compute infer" in report, report


def check_perf_analyzer_streams_texts(url: str, _: str) -> None:
    """With the inputs of Triton's backend for vLLM, as GenAI-Perf writes them, each piece of text is a response."""
    sampling = json.dumps({"max_tokens": f"{NUM_TOKENS}", "min_tokens": f"{NUM_TOKENS}", "separate_tokens": "true"})
    inputs = {"text_input": ["The capital of France is"], "stream": [True], "exclude_input_in_output": [True]}
    report, requests = run(url, MODEL, {**inputs, "sampling_parameters": [sampling]}, *STREAMED)
    succeeded(report, requests)
    assert "Detected decoupled model" in report, report
    assert all(len(each["response_timestamps"]) > 2 for each in requests), requests


def check_perf_analyzer_streams_chats(url: str, _: str) -> None:
    """Chats take the parameters of the command line."""
    messages = json.dumps([{"role": "user", "content": "Who are you?"}])
    parameters = ("--request-parameter=max_tokens:9:int", "--request-parameter=temperature:0:int")
    succeeded(*run(url, MODEL, {"messages": [messages], "stream": [True]}, *STREAMED, *parameters))


def check_perf_analyzer_embeds(url: str, _: str) -> None:
    """Embeddings over gRPC and over HTTP."""
    inputs = {"text_input": {"content": ["a cat", "a dog"], "shape": [2]}}
    for protocol in ("grpc", "http"):
        succeeded(*run(url, ENCODER, inputs, "-i", protocol))


def check_perf_analyzer_reports_errors(url: str, _: str) -> None:
    """An error is the server's text."""
    inputs = {"text_input": ["a"], "stream": [True]}
    report, requests = run(url, MODEL, inputs, *STREAMED, "--request-parameter=max_tokns:9:int")
    assert not requests
    assert 'parameters["max_tokns"]: unknown parameter; did you mean max_tokens?' in report, report
