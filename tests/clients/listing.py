"""Write the page of clients, docs/api/clients.md, from the pins and the checks: python -m tests.clients.listing."""

import ast
import json
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).parent
PAGE = ROOT / "docs" / "api" / "clients.md"
# The packages that a file of checks drives.
PACKAGES = {
    "frameworks/agents.py": ("pydantic-ai-slim", "openai-agents"),
    "anthropic.mjs": ("@anthropic-ai/sdk",),
    "anthropic.py": ("anthropic",),
    "azure.py": ("azure-ai-inference",),
    "benchmarks/benchmarks.py": ("guidellm", "aiperf", "genai-perf", "sglang", "vllm"),
    "cohere.py": ("cohere",),
    "databricks.py": ("databricks-sdk",),
    "frameworks/databricks_langchain.py": ("databricks-langchain",),
    "frameworks/frameworks.py": ("llama-index-llms-openai-like", "instructor", "dspy"),
    "frameworks/langchain.py": ("langchain-openai", "langchain-azure-ai"),
    "frameworks/langchain_cohere.py": ("langchain-cohere",),
    "frameworks/litellm.py": ("litellm",),
    "kserve.py": ("kserve",),
    "benchmarks/lm_eval.py": ("lm-eval",),
    "benchmarks/locust.py": ("locust",),
    "frameworks/mlflow.py": ("mlflow-skinny",),
    "ollama.mjs": ("ollama",),
    "ollama.py": ("ollama",),
    "openai.mjs": ("openai",),
    "openai.py": ("openai",),
    "benchmarks/perf_analyzer.py": ("tritonclient",),
    "smg.py": ("smg", "smg-grpc-proto"),
    "tritonclient.py": ("tritonclient",),
    "vercel.mjs": ("ai", "@ai-sdk/openai-compatible"),
}
HEAD = """\
# Clients

Packages that are tested unchanged, except for the address, against a running server. `make test` tests those with small
environments, `make test-clients` also the others. Generated from the tests by `python -m tests.clients.listing`.

| client | version | tested by | tested features |
|---|---|---|---|
"""


def versions() -> dict[str, str]:
    """Return each package's version by its kind and name, such as `py:openai`."""
    found: dict[str, str] = dict(json.loads((ROOT / "tools" / "package.json").read_text())["dependencies"])
    found = {f"mjs:{name}": version for name, version in found.items()}
    for path in sorted((HERE / "requirements").rglob("*.txt")):
        for name, version in re.findall(r"^([\w.-]+)==(\S+)", path.read_text(), re.MULTILINE):
            found[f"{path.stem}:{name}"] = version
    found["benchmarks:vllm"] = re.findall(
        r"\bversion=([\d.]+) hash=", (ROOT / "tools" / "install" / "clients.sh").read_text()
    )[0]
    return found


def driven(path: Path) -> str:
    """Return the claims of a file's checks, from their docstrings or names."""
    text = path.read_text()
    if path.suffix == ".mjs":
        return "; ".join(
            name.replace("_", " ") for name in re.findall(r"^  async check_node_(\w+)\(", text, re.MULTILINE)
        )
    checks = [node for node in ast.parse(text).body if isinstance(node, ast.FunctionDef)]
    return "; ".join(each.name[6:].replace("_", " ") for each in checks if each.name.startswith("check_"))


def page() -> str:
    """Return the page's text."""
    known, rows = versions(), []
    for file, names in sorted(PACKAGES.items(), key=lambda item: Path(item[0]).name):
        path = HERE / "checks" / file
        where = "benchmarks" if path.stem == "lm_eval" else path.stem
        large = path.suffix == ".py" and (HERE / "requirements" / "large" / f"{where}.txt").exists()
        found = [(name, known[f"{'mjs' if path.suffix == '.mjs' else where}:{name}"]) for name in names]
        language = " (npm)" if path.suffix == ".mjs" else ""
        target = "make test-clients" if large else "make test"
        rows.append(
            f"| {', '.join(f'`{name}`' for name, _ in found)}{language} | {', '.join(version for _, version in found)} "
            f"| `{target}` | {driven(path)} |"
        )
    return HEAD + "\n".join(rows) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page())
