"""Coding agents run unchanged: the model calls their shell, and answers when it sees the command's output."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from service.output.families.tagged_calls import QWEN_CODER
from tests.e2e.scripted_models import Script, scripted_product
from tests.e2e.stack import ROOT
from tests.engine.constraints.fakes import tokenizer_of
from tests.service.output.families.families import FAMILIES

PROGRAMS = ROOT / ".cache" / "agents" / "node_modules" / ".bin"
ANSWER = "It is sunny."
COMMAND = "echo sun, $((20 + 5)) degrees"  # prints what the model waits for; the call itself doesn't have it
MODEL = "coder"
CONTEXT = 262_144  # tokens; most of them are single bytes here
TEMPLATES = {family.syntax: family.template for family in FAMILIES}


@dataclass(frozen=True)
class Agent:
    """An agent: its program with arguments, its shell's name and arguments, and its settings at a server's URL."""

    command: tuple[str, ...]
    shell: str
    arguments: dict[str, str]
    environment: Callable[[str], dict[str, str]] = lambda _: {}
    files: Callable[[str], dict[str, str]] = lambda _: {}


def _claude(url: str) -> dict[str, str]:
    return {
        "ANTHROPIC_BASE_URL": url, "ANTHROPIC_AUTH_TOKEN": "unused", "ANTHROPIC_MODEL": MODEL,
        "ANTHROPIC_SMALL_FAST_MODEL": MODEL, "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    }  # fmt: skip


def _codex(url: str) -> dict[str, str]:
    settings = f"""
model = "{MODEL}"
model_provider = "sluice"
[model_providers.sluice]
name = "sluice"
base_url = "{url}/v1"
wire_api = "responses"
"""
    return {".codex/config.toml": settings}


def _opencode(url: str) -> dict[str, str]:
    provider = {
        "npm": "@ai-sdk/openai-compatible",
        "options": {"baseURL": f"{url}/v1", "apiKey": "unused"},
        "models": {MODEL: {}},
    }
    settings: dict[str, Any] = {"model": f"sluice/{MODEL}", "provider": {"sluice": provider}, "autoupdate": False}
    return {".config/opencode/opencode.json": json.dumps(settings)}


def _qwen(url: str) -> dict[str, str]:
    return {"OPENAI_BASE_URL": f"{url}/v1", "OPENAI_API_KEY": "unused", "OPENAI_MODEL": MODEL}


AGENTS = {
    "claude": Agent(("claude", "--allowedTools", "Bash", "-p"), "Bash", {"command": COMMAND}, environment=_claude),
    "codex": Agent(
        ("codex", "exec", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox"),
        "exec_command", {"cmd": COMMAND}, files=_codex,
    ),
    "opencode": Agent(("opencode", "run"), "bash", {"command": COMMAND}, files=_opencode),
    "qwen": Agent(
        ("qwen", "--auth-type", "openai", "-y", "-p"), "run_shell_command", {"command": COMMAND}, environment=_qwen
    ),
}  # fmt: skip


def script_of(agent: Agent) -> Script:
    """Return a model that calls the agent's shell, and answers when it has the output."""
    parameters = "".join(f"<parameter={name}>\n{value}\n</parameter>\n" for name, value in agent.arguments.items())
    return Script(
        TEMPLATES[QWEN_CODER],
        tokenizer_of("<tool_call>", "</tool_call>", special=("<|im_start|>", "<|im_end|>")),
        ("<|im_end|>",),
        f"Let me look.\n<tool_call>\n<function={agent.shell}>\n{parameters}</function>\n</tool_call><|im_end|>",
        f"{ANSWER}<|im_end|>",
    )


@pytest.mark.large
@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", AGENTS)
async def test_an_agent_calls_its_shell(name: str, tmp_path: Path) -> None:
    """An agent's requests are accepted, it runs the call, and prints the answer that follows from the output."""
    agent = AGENTS[name]
    async with scripted_product({MODEL: script_of(agent)}, CONTEXT) as clients:
        url = str(clients.http.base_url)
        home, project = tmp_path / "home", tmp_path / "project"
        project.mkdir()
        for path, text in agent.files(url).items():
            (home / path).parent.mkdir(parents=True, exist_ok=True)
            (home / path).write_text(text)
        home.mkdir(exist_ok=True)
        program, *arguments = agent.command
        process = await asyncio.create_subprocess_exec(
            PROGRAMS / program, *arguments, "What is the weather?", cwd=project, stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
            env={"PATH": os.environ["PATH"], "HOME": str(home), "TERM": "dumb", **agent.environment(url)},
        )  # fmt: skip
        printed = (await process.communicate())[0].decode()
    assert process.returncode == 0, printed
    assert ANSWER in printed
