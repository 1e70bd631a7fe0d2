"""`sluice complete` and `sluice embed`: continue a raw text, or compute the vectors of texts."""

from __future__ import annotations

import sys
from typing import Annotated, Any

import typer

from cli.calls.options import DEFAULT, AsJson, CaFile, Key, ModelName, Url, connected, fail, print_json, print_text


def complete(
    prompt: Annotated[str, typer.Argument(help="The text to continue; without it: standard input.")] = "",
    model: ModelName = "",
    max_tokens: Annotated[int, typer.Option(min=1, help="Maximum number of tokens.")] = 64,
    temperature: Annotated[float | None, typer.Option(min=0, help="0 selects the most likely token.")] = None,
    as_json: AsJson = False,
    url: Url = DEFAULT,
    key: Key = "",
    ca_file: CaFile = "",
) -> None:
    """Continue a text. --json prints the server's events, one per line."""
    text = prompt or _piped()
    with connected(url, key, ca_file) as server:
        body: dict[str, Any] = {"model": model or next(iter(server.models()), ""), "prompt": text}
        body["max_tokens"] = max_tokens
        if temperature is not None:
            body["temperature"] = temperature
        try:
            with server.stream("/v1/completions", body) as events:
                for event in events:
                    if as_json:
                        print_json(event, indent=None)
                        continue
                    for choice in event.get("choices") or ():
                        print_text(choice.get("text", ""), nl=False)
        except KeyboardInterrupt:
            raise typer.Exit(130) from None
        finally:
            if not as_json:
                typer.echo()


def embed(
    text: Annotated[list[str], typer.Argument(help="Texts; without any: the lines of standard input.")] = [],
    model: Annotated[str, typer.Option("--model", "-m", help="Default: the first embedding model.")] = "",
    as_json: AsJson = False,
    url: Url = DEFAULT,
    key: Key = "",
    ca_file: CaFile = "",
) -> None:
    """Compute the vectors of texts, one line of numbers per text. --json prints the server's response."""
    texts = list(text) or _piped().rstrip("\n").split("\n")
    with connected(url, key, ca_file) as server:
        answer = server.post("/v1/embeddings", {"model": model or server.embedding_model(), "input": texts})
        if as_json:
            print_json(answer)
            return
        for entry in answer["data"]:
            typer.echo(" ".join(f"{number:.6g}" for number in entry["embedding"]))


def _piped() -> str:
    """Return the text of standard input. Fail if there is none."""
    text = "" if sys.stdin.isatty() else sys.stdin.read()
    if not text.strip():
        fail("no text: give an argument or standard input")
    return text
