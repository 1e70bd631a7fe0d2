"""The URL of a Redis or Valkey server."""

from __future__ import annotations

from typing import Annotated, TypeAlias

from pydantic import AfterValidator, Field


def _checked(url: str) -> str:
    """Return the URL. Raise ValueError if Redis's client doesn't accept it."""
    # Imported late: most services need no Redis.
    from service.quota.redis_store import check_url  # noqa: PLC0415

    check_url(url)
    return url


RedisUrl: TypeAlias = Annotated[str, Field(pattern=r"^(rediss?|unix)://"), AfterValidator(_checked)]
