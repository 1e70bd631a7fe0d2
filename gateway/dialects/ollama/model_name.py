"""Names of models: a name without a tag is the same as one with the tag `latest`."""

from __future__ import annotations

from typing import Final

_TAG: Final = ":latest"


def served_name(name: str) -> str:
    """Return the name under which the model of a request is served: by that name Envoy chooses a pool."""
    return name.removesuffix(_TAG)


def tagged_name(name: str) -> str:
    """Return the name of a served model as lists have it: clients add the tag to names without one."""
    return name if ":" in name.rpartition("/")[2] else name + _TAG
