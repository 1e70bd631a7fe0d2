"""Keys for tests, and files of them."""

from pathlib import Path
from typing import Any

from service.auth.keys.key import digest, new_key
from service.auth.keys.key_entry import KeyEntry, to_entry
from service.auth.keys.key_file import write_keys


def key_of(key_id: str, **fields: Any) -> tuple[str, KeyEntry]:
    """Return a new key and its entry; by default it may generate."""
    key = new_key(key_id)
    return key, to_entry({"id": key_id, "sha256": digest(key), "scopes": ["generate"], **fields}, key_id)


def write(path: Path, **keys: dict[str, Any]) -> dict[str, str]:
    """Write a keys file with those fields by key id, and return the keys."""
    made = {key_id.replace("_", "-"): key_of(key_id.replace("_", "-"), **fields) for key_id, fields in keys.items()}
    write_keys(path, [entry for _, entry in made.values()])
    return {key_id: key for key_id, (key, _) in made.items()}
