"""Settings of images: their sources and limits."""

from __future__ import annotations

import re
from typing import Annotated, Final

from pydantic import BaseModel, ConfigDict, Field, field_validator

from process.settings.quantities import Bytes, Count, Interval
from process.settings.setting import UNIT

_HOST: Final = re.compile(r"((\*\.)?[a-z0-9]([a-z0-9.-]*[a-z0-9])?|\*)(:[0-9]{1,5})?", re.IGNORECASE)
_MAX_PORT: Final = 65535


class ImageSettings(BaseModel):
    """Images in requests to models that accept them; see docs/features/images.md."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    max_images: Annotated[int, Field(ge=0, json_schema_extra={UNIT: "images"})] = Field(
        32, description="largest number of images in a request; 0: images are rejected"
    )
    max_bytes: Bytes = Field(10 << 20, description="largest file of an image")
    max_pixels: Annotated[int, Field(ge=1, json_schema_extra={UNIT: "pixels"})] = Field(
        1 << 25, description="largest image, width times height"
    )
    allowed_hosts: list[str] = Field(
        [],
        description="hosts from which images are fetched by URL; `*.example.com`: subdomains; `*`: any host; "
        "HOST:PORT: only this port; empty: no URL is fetched",
    )
    allow_http: bool = Field(False, description="also fetch http: URLs, whose content can be changed on the network")
    allow_private_addresses: bool = Field(
        False, description="also fetch from loopback, link-local and private addresses, such as those of a cluster"
    )
    max_fetch_s: Interval = Field(
        5,
        description="time to fetch an image, including redirects and the wait for max_fetches_per_host, but not the "
        "wait for max_fetches_per_key",
    )
    max_redirects: Annotated[int, Field(ge=0, le=20)] = Field(
        3, description="redirects that are followed; the target of each is checked like a URL"
    )
    max_fetches: Count = Field(64, description="images fetched at the same time")
    max_fetches_per_host: Count = Field(8, description="images fetched from one host at the same time")
    max_fetches_per_key: Count = Field(
        16, description="images fetched at the same time for one API key; requests without a key have no such limit"
    )

    @field_validator("allowed_hosts")
    @classmethod
    def _are_hosts(cls, hosts: list[str]) -> list[str]:
        for host in hosts:
            found = _HOST.fullmatch(host)
            if found is None or not 0 < int((found[4] or ":1")[1:]) <= _MAX_PORT:
                text = "allowed are example.com, *.example.com and *, optionally with a port, as in example.com:8443"
                raise ValueError(f"{host!r} is not the name of a host; {text}")
        return [host.lower() for host in hosts]
