"""Benchmark programs: guidellm, AIPerf, GenAI-Perf, vLLM's and SGLang's.

Their measurements are ignored here; each has to find the server, send its usual requests, and count every answer.
"""

import json
import os
import subprocess
import sys
import tempfile
import urllib.request
from pathlib import Path
from typing import Any

MODEL = "sluice-demo"
TOKENIZER = str(Path(__file__).parents[4] / "demo" / "model")
PROGRAMS = Path(sys.executable).parent
NUM_REQUESTS, NUM_TOKENS = 6, 12

# SGLang's benchmark needs two names of its server, whose import needs a GPU's libraries.
SGLANG = """
import importlib.util, runpy, sys, types

(root,) = importlib.util.find_spec("sglang").submodule_search_locations
for name in ("", ".srt", ".srt.utils", ".srt.disaggregation", ".srt.disaggregation.utils"):
    module = sys.modules["sglang" + name] = types.ModuleType("sglang" + name)
    module.__path__ = [root + name.replace(".", "/")]
module.FAKE_BOOTSTRAP_HOST = ""
runpy.run_module("sglang.bench_serving", run_name="__main__")
"""

# `vllm bench serve` without the command, which imports all of vLLM's other commands.
VLLM = """
import argparse
from vllm.benchmarks import serve

parser = argparse.ArgumentParser()
serve.add_cli_args(parser)
serve.main(parser.parse_args())
"""


def output_of(folder: str, *command: str) -> str:
    """Run a program in `folder`, without access to a hub, and return its output."""
    path = f"{PROGRAMS}{os.pathsep}{os.environ['PATH']}"
    environment = {
        **os.environ,
        "PATH": path,
        "HF_HOME": folder,
        "VLLM_NO_USAGE_STATS": "1",
        "HF_HUB_DISABLE_TELEMETRY": "1",
    }
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, (done.stdout + done.stderr)[-5000:]
    return done.stdout


def program(name: str) -> str:
    """Return the path of an installed command."""
    return str(PROGRAMS / name)


def check_guidellm(url: str, _: str) -> None:
    """Guidellm finds the server by `/health`, and counts every streamed token on both of OpenAI's paths."""
    for path in ("/v1/chat/completions", "/v1/completions"):
        with tempfile.TemporaryDirectory() as folder:
            command = [
                program("guidellm"),
                "run",
                "--disable-console",
                "--output",
                f"kind=json,path={folder}/told.json",
            ]
            backend = f"kind=openai_http,target={url},model={MODEL},request_format={path}"
            data = f"kind=synthetic_text,prompt_tokens=40,output_tokens={NUM_TOKENS}"
            limits = [
                "--profile",
                "kind=concurrent,streams=2",
                "--constraint",
                f"kind=max_requests,count={NUM_REQUESTS}",
            ]
            tokenizer = ["--tokenizer", f"kind=huggingface_auto,model={TOKENIZER}"]
            output_of(folder, *command, "--backend", backend, "--data", data, *limits, *tokenizer)
            (benchmark,) = json.loads(Path(folder, "told.json").read_text())["benchmarks"]
        metrics: Any = benchmark["metrics"]
        assert metrics["request_totals"] == {**metrics["request_totals"], "successful": NUM_REQUESTS, "errored": 0}
        assert metrics["output_token_count"]["successful"]["mean"] == NUM_TOKENS


def check_aiperf(url: str, _: str) -> None:
    """Streamed chats and completions: every request succeeds."""
    for kind in ("chat", "completions"):
        with tempfile.TemporaryDirectory() as folder:
            arguments = [
                "--model",
                MODEL,
                "--url",
                url,
                "--endpoint-type",
                kind,
                "--streaming",
                "--tokenizer",
                TOKENIZER,
            ]
            size = ["--concurrency=2", f"--request-count={NUM_REQUESTS}", "--isl=40", f"--osl={NUM_TOKENS}"]
            shown = ["--ui-type=none", "--no-gpu-telemetry", f"--output-artifact-dir={folder}/told", "--workers-max=1"]
            output_of(folder, program("aiperf"), "profile", *arguments, *size, *shown)
            result = json.loads(Path(folder, "told", "profile_export_aiperf.json").read_text())
        assert result["request_count"]["avg"] == NUM_REQUESTS, result
        assert not result["error_summary"], result


def check_genai_perf(url: str, _: str) -> None:
    """The requests that it generates for its load generator, which is not on PyPI, are answered."""
    for kind, path in (("chat", "/v1/chat/completions"), ("completions", "/v1/completions")):
        with tempfile.TemporaryDirectory() as folder:
            fake = Path(folder, "perf_analyzer")
            fake.write_text("#!/bin/sh\n")
            fake.chmod(0o755)
            arguments = ["-m", MODEL, "--endpoint-type", kind, "--streaming", "--tokenizer", TOKENIZER]
            size = ["--synthetic-input-tokens-mean=40", f"--output-tokens-mean={NUM_TOKENS}", "--num-dataset-entries=3"]
            subprocess.run(
                [program("genai-perf"), "profile", *arguments, *size, f"--artifact-dir={folder}/told"],
                env={**os.environ, "PATH": f"{folder}{os.pathsep}{os.environ['PATH']}", "HF_HOME": folder},
                cwd=folder, capture_output=True, check=False,
            )  # fmt: skip  # it fails in the end, since nothing was measured
            (inputs,) = Path(folder, "told").rglob("inputs.json")
            entries = json.loads(inputs.read_text())["data"]
        assert len(entries) == 3
        for entry in entries:
            for payload in entry["payload"]:
                head = {"content-type": "application/json"}
                request = urllib.request.Request(url + path, json.dumps(payload).encode(), head)  # noqa: S310  ours
                with urllib.request.urlopen(request, timeout=240) as answer:  # noqa: S310  ours
                    lines = [line for line in answer.read().decode().splitlines() if line]
                assert all(line.startswith("data: ") for line in lines), lines
                assert lines[-1] == "data: [DONE]"


def check_vllm_bench_serve(url: str, _: str) -> None:
    """VLLM's benchmark with chats and completions: all requests are completed, with the exact number of tokens."""
    for kind, path in (("openai", "/v1/completions"), ("openai-chat", "/v1/chat/completions")):
        with tempfile.TemporaryDirectory() as folder:
            arguments = [
                f"--backend={kind}",
                f"--base-url={url}",
                f"--endpoint={path}",
                f"--model={MODEL}",
                f"--tokenizer={TOKENIZER}",
            ]
            size = [
                "--dataset-name=random",
                "--random-input-len=40",
                f"--random-output-len={NUM_TOKENS}",
                "--ignore-eos",
            ]
            load = [f"--num-prompts={NUM_REQUESTS}", "--max-concurrency=2", "--save-result", f"--result-dir={folder}"]
            output_of(folder, sys.executable, "-c", VLLM, *arguments, *size, *load, "--result-filename=told.json")
            result = json.loads(Path(folder, "told.json").read_text())
        assert (result["completed"], result["failed"]) == (NUM_REQUESTS, 0), result
        assert result["total_output_tokens"] == NUM_REQUESTS * NUM_TOKENS, result


def check_sglang_bench_serving(url: str, _: str) -> None:
    """SGLang's benchmark with chats and completions: all requests are completed, with the exact number of tokens."""
    for kind in ("sglang-oai", "sglang-oai-chat"):
        with tempfile.TemporaryDirectory() as folder:
            arguments = [f"--backend={kind}", f"--base-url={url}", f"--model={MODEL}", f"--tokenizer={TOKENIZER}"]
            size = ["--random-input-len=40", f"--random-output-len={NUM_TOKENS}", "--random-range-ratio=1"]
            load = [f"--num-prompts={NUM_REQUESTS}", "--max-concurrency=2", f"--output-file={folder}/told.jsonl"]
            output_of(folder, sys.executable, "-c", SGLANG, "--dataset-name=random-ids", *arguments, *size, *load)
            result = json.loads(Path(folder, "told.jsonl").read_text())
        assert result["completed"] == NUM_REQUESTS, result
        assert result["total_output_tokens"] == NUM_REQUESTS * NUM_TOKENS, result
