"""`sluice pull`, `list` and `rm`: download models of the hub before they are served, list them, and remove them.

The models are in the hub's own cache (`HF_HOME`), where `sluice serve` finds them by their ids.
"""

from __future__ import annotations

import argparse
import json
import logging
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from service.engine.loading.model_folder import find_folder
from service.generation.errors import ModelLoadError

_HEADS: Final = ("MODEL", "SIZE", "USED")


def pull(model: str) -> str:
    """Download a model of the hub, and return its folder; that of a folder or GGUF file is itself.

    Raise ModelLoadError.
    """
    folder = find_folder(model)
    if not (folder / "config.json").is_file():
        raise ModelLoadError(f"{model}: {folder} has no config.json; it is no model's folder")
    return str(folder)


def pulled() -> Sequence[dict[str, Any]]:
    """Return the models in the hub's cache, by name, each with its size in bytes and the time of its last use."""
    return [
        {
            "name": repo.repo_id,
            "bytes": repo.size_on_disk,
            "used": datetime.fromtimestamp(repo.last_accessed, UTC).isoformat(timespec="seconds"),
        }
        for repo in sorted(_repos(), key=lambda repo: str(repo.repo_id))
    ]


def remove(model: str) -> int:
    """Remove a model from the hub's cache, and return the number of bytes freed. Raise ModelLoadError."""
    if Path(model).exists() and model not in {repo.repo_id for repo in _repos()}:
        raise ModelLoadError(f"{model} is a folder or file of yours; only models of the hub are removed")
    from huggingface_hub import scan_cache_dir  # noqa: PLC0415

    for repo in _repos():
        if repo.repo_id == model:
            deletion = scan_cache_dir().delete_revisions(*(each.commit_hash for each in repo.revisions))
            deletion.execute()
            return int(deletion.expected_freed_size)
    raise ModelLoadError(f"{model} is not in the hub's cache; `sluice list` shows what is")


def _repos() -> Sequence[Any]:
    """The models in the hub's cache."""
    # Imported here, because the import takes 0.1 s.
    from huggingface_hub import CacheNotFound, scan_cache_dir  # noqa: PLC0415

    try:
        return [repo for repo in scan_cache_dir().repos if repo.repo_type == "model"]
    except CacheNotFound:  # nothing was ever downloaded
        return []


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command, and return its exit code: 0, or 1 with a one-line error."""
    options = _parser().parse_args(arguments)
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stderr)
    try:
        if options.command == "pull":
            _write(pull(options.model))
        elif options.command == "rm":
            _write(f"{options.model} is removed: {remove(options.model) / 1e6:.1f} MB")
        else:
            _print_models(as_json=options.json)
    except ModelLoadError as error:
        sys.stderr.write(f"sluice: {error}\n")
        return 1
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="sluice")
    commands = parser.add_subparsers(dest="command", required=True)
    pulling = commands.add_parser("pull", help="download a model of the hub; prints its folder")
    pulling.add_argument("model", help="ORG/MODEL on the hub, or a folder or GGUF file, which is only found")
    listing = commands.add_parser("list", help="list the models that were downloaded from the hub")
    listing.add_argument("--json", action="store_true", help="print JSON")
    removing = commands.add_parser("rm", help="remove a downloaded model")
    removing.add_argument("model", help="ORG/MODEL on the hub")
    return parser


def _print_models(*, as_json: bool) -> None:
    models = pulled()
    if as_json:
        _write(json.dumps(models, indent=2))
        return
    rows = [_HEADS, *((each["name"], f"{each['bytes'] / 1e6:.1f} MB", each["used"]) for each in models)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(_HEADS))]
    for row in rows:
        _write("  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip())


def _write(text: str) -> None:
    """Write a line to standard output."""
    sys.stdout.write(f"{text}\n")


if __name__ == "__main__":
    sys.exit(main())
