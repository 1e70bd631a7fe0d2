"""A service that requires keys, calls with a key, and the reason for which a call was rejected."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from tests.service.auth.key_files import write
from tests.service.fakes import Running, rejection_of, running


@asynccontextmanager
async def guarded(path: Path, **keys: dict[str, Any]) -> AsyncIterator[tuple[Running, dict[str, str]]]:
    """Run a service with those keys, and return both."""
    made = write(path, **keys)
    async with running(auth={"keys_file": path}) as run:
        yield run, made


def bearing(key: str) -> tuple[tuple[str, str], ...]:
    """Return the metadata of a call with a key."""
    return (("authorization", f"Bearer {key}"),)


async def outcome(call: Any) -> str | None:
    """Return the reason for which a call was rejected; None if it succeeded."""
    try:
        reason: str = (await rejection_of(call)).info.reason
    except AssertionError:
        return None
    return reason
