"""Settings of images: their sources and limits."""

from __future__ import annotations

import re
from typing import Annotated, Final

from pydantic import BaseModel, ConfigDict, Field, field_validator

_HOST: Final = re.compile(r"((\*\.)?[a-z0-9]([a-z0-9.-]*[a-z0-9])?|\*)(:[0-9]{1,5})?", re.IGNORECASE)
_MAX_PORT: Final = 65535


class ImageSettings(BaseModel):
    """The images of requests to models that take any. docs/images.md tells more."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    max_images: Annotated[int, Field(ge=0)] = Field(32, description="images of a request; 0: none are taken")
    max_bytes: Annotated[int, Field(ge=1)] = Field(10 << 20, description="bytes of an image's file")
    max_pixels: Annotated[int, Field(ge=1)] = Field(1 << 25, description="pixels of an image, width times height")
    allowed_hosts: list[str] = Field(
        [],
        description="hosts that images are fetched from by URL; *.example.com: those below it; *: any; "
        "HOST:PORT: at this port alone; none: no URL is fetched",
    )
    allow_http: bool = Field(False, description="fetch http: URLs, too, which anybody on the way can change")
    allow_private_addresses: bool = Field(
        False, description="fetch from loopback, link-local and private addresses, too, such as those of a cluster"
    )
    max_fetch_s: Annotated[float, Field(gt=0, allow_inf_nan=False)] = Field(
        5,
        description="time to fetch an image, redirects and the wait for others of its host included, "
        "but not for its key's turn",
    )
    max_redirects: Annotated[int, Field(ge=0, le=20)] = Field(3, description="redirects followed, each checked anew")
    max_fetches: Annotated[int, Field(ge=1)] = Field(64, description="images fetched at a time")
    max_fetches_per_host: Annotated[int, Field(ge=1)] = Field(8, description="images fetched from one host at a time")
    max_fetches_per_key: Annotated[int, Field(ge=1)] = Field(
        16, description="images fetched at a time for one key's requests; callers without keys have no such limit"
    )

    @field_validator("allowed_hosts")
    @classmethod
    def _are_hosts(cls, hosts: list[str]) -> list[str]:
        for host in hosts:
            found = _HOST.fullmatch(host)
            if found is None or not 0 < int((found[4] or ":1")[1:]) <= _MAX_PORT:
                text = "example.com, *.example.com and * are allowed, and each with a port, such as example.com:8443"
                raise ValueError(f"{host!r} is no host's name; {text}")
        return [host.lower() for host in hosts]
