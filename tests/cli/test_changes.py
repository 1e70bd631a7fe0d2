"""`sluice models load`, `unload`, `sleep`, `wake`, and `sluice adapters`, with keys, against the whole product."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.command import Done, sluice
from tests.e2e.stack import Stack, started
from tests.engine.folders import peft_adapters

pytestmark = pytest.mark.slow

DEMO = Path("demo/model").resolve()


class Administered(NamedTuple):
    """A product with the keys of an administrator and of a plain user, and folders to load from."""

    stack: Stack
    keys: dict[str, str]

    def sluice(self, *words: str, who: str = "admin", urls: tuple[str, ...] = ()) -> Done:
        """Run a command with a user's key."""
        env = {"SLUICE_URL": " ".join(urls or (self.stack.url,)), "SLUICE_API_KEY": self.keys[who]}
        return sluice(*words, env=env)

    def output(self, *words: str) -> str:
        """Run a command that succeeds, and return its output."""
        done = self.sluice(*words)
        assert (done.returncode, done.stderr) == (0, "")
        return done.stdout

    def models(self) -> list[str]:
        return self.output("models").splitlines()


@pytest.fixture(scope="module")
def product(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Administered]:
    folder = tmp_path_factory.mktemp("administered")
    (folder / "models").mkdir()
    (folder / "models" / "second").symlink_to(DEMO)  # rejected, because its target is outside the root
    (folder / "models" / "third").mkdir()
    for file in DEMO.iterdir():
        (folder / "models" / "third" / file.name).hardlink_to(file)
    peft_adapters.save_adapter(DEMO, folder / "adapters" / "french", seed=1, std=0.13)
    keys = {}
    for name, scopes in (("admin", ("admin", "generate")), ("asker", ("generate",))):
        words = ["keys", "create", "--file", str(folder / "keys.yaml"), "--id", name, "--json"]
        words += [word for scope in scopes for word in ("--scope", scope)]
        keys[name] = json.loads(sluice(*words).stdout)["key"]
    with started(
        f"--model=demo={DEMO}",
        f"--keys-file={folder / 'keys.yaml'}",
        environment={
            "SLUICE_SERVICE_MODELS_ROOT": str(folder / "models"),
            "SLUICE_SERVICE_ADAPTERS_ROOT": str(folder / "adapters"),
        },
    ) as stack:
        yield Administered(stack, keys | {"nobody": ""})


def test_a_model_is_loaded_put_to_sleep_woken_and_unloaded(product: Administered) -> None:
    """Each command returns when the change is complete, and `sluice models` lists the result."""
    printed = product.output("models", "load", "writer", "third", "--max-model-len", "64", "--version", "7")
    assert printed.startswith("writer is served: Qwen3ForCausalLM, ")
    assert printed.endswith(" 64 tokens\n")
    assert product.models() == ["demo", "writer"]
    assert product.output("models", "sleep", "writer") == "writer sleeps\n"
    refused = product.sluice("complete", "Once", "--model", "writer")
    assert (refused.returncode, refused.stderr.count("\n")) == (1, 1)
    assert "is asleep" in refused.stderr
    assert json.loads(product.output("models", "wake", "writer", "--json")) == {"name": "writer"}
    assert product.output("complete", "Once", "--model", "writer", "--max-tokens", "4")
    assert product.output("models", "unload", "writer") == "writer is unloaded\n"
    assert product.models() == ["demo"]


def test_an_adapter_is_loaded_listed_and_unloaded(product: Administered) -> None:
    adapter = json.loads(product.output("adapters", "load", "demo:french", "french", "--json"))
    assert (adapter["name"], adapter["model"], adapter["served"]["parent"]) == ("french", "demo", "demo")
    heads, row = product.output("adapters").splitlines()
    assert heads.split() == ["NAME", "RANK", "PARAMETERS", "FOLDER"]
    assert row.split()[0] == "demo:french"
    assert [each["name"] for each in json.loads(product.output("adapters", "--json", "-m", "demo"))] == ["french"]
    assert product.output("adapters", "unload", "demo:french") == "demo:french is unloaded\n"
    assert len(product.output("adapters").splitlines()) == 1


def test_change_of_several_servers_continues_after_a_failure(product: Administered) -> None:
    """A failure of one server does not stop the others, and the exit code reports it."""
    service = f"http://127.0.0.1:{product.stack.ports['service']}"
    gone = "http://127.0.0.1:1"
    done = product.sluice("models", "load", "writer", "third", urls=(gone, service))
    assert done.returncode == 1
    assert done.stdout.startswith(f"{service}: writer is served: ")
    assert done.stderr.startswith(f"sluice: {gone}: no gRPC at {gone} (")
    done = product.sluice("models", "unload", "writer", "--json", urls=(gone, service))
    assert done.returncode == 1
    first, second = json.loads(done.stdout)
    assert (first["url"], second) == (gone, {"url": service, "name": "writer"})
    assert first["error"].startswith("no gRPC")


@pytest.mark.parametrize(
    ("words", "who", "code", "text"),
    [
        (("models", "load", "x", "nothing"), "admin", 1, "path: it must be a folder below the one"),
        (("models", "load", "x", "second"), "admin", 1, "path: it must be a folder below the one"),
        (("models", "load", "demo", "third"), "admin", 1, "the name 'demo' is taken"),
        (("models", "load", "x", "third", "--dtype", "float8"), "admin", 1, "dtype: must be auto, bfloat16 or float32"),
        (("models", "load", "x", "third", "--cache-share", "2"), "admin", 1, "cache_share: must be greater than 0"),
        (("models", "load", "x", "third", "--max-model-len", "1"), "admin", 2, "--max-model-len"),
        (("models", "unload", "x"), "admin", 1, "no model named 'x' is served"),
        (("models", "unload", "demo"), "asker", 1, "the key lacks the scope admin"),
        (("models", "unload", "demo"), "nobody", 1, "give a key by SLUICE_API_KEY"),
        (("models", "--json", "unload", "demo"), "admin", 2, "--json must come after 'unload'"),
        (("models", "unload", "demo", "--url", "envoy"), "admin", 1, "envoy: not a URL such as http://"),
        (("models", "unload", "demo", "--url", "https://[::1]:1", "--ca-file", "/none"), "admin", 1, "/none"),
        (("adapters", "load", "french", "french"), "admin", 2, "'french' must be MODEL:NAME"),
        (("adapters", "load", "demo:french", "none"), "admin", 1, "path: it must be a folder below the one"),
        (("adapters", "unload", "demo:none"), "admin", 1, "the model 'demo' has no adapter named 'none'"),
        (("adapters",), "asker", 1, "the key lacks the scope admin"),
    ],
)
def test_errors_are_printed_in_one_line(
    product: Administered, words: tuple[str, ...], who: str, code: int, text: str
) -> None:
    """The error names the field or flag, and nothing has changed."""
    done = product.sluice(*words, who=who)
    assert (done.returncode, done.stdout) == (code, "")
    assert text in done.stderr
    if code == 1:
        assert (done.stderr.count("\n"), done.stderr[:8]) == (1, "sluice: ")
    assert product.models() == ["demo"]


def test_a_server_without_grpc_is_reported(product: Administered) -> None:
    """The gateway's own port does not serve gRPC."""
    done = product.sluice("models", "unload", "demo", urls=(product.stack.gateway,))
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1)
    assert done.stderr.startswith(f"sluice: no gRPC at {product.stack.gateway} (")
