"""The attack cases, one subject per file. SECTIONS has the subjects in the order in which they run."""

from __future__ import annotations

from conformance.attacks.sections import (
    bombs,
    fields,
    grammars,
    grpc_calls,
    headers,
    http2_frames,
    json_bodies,
    keys,
    names,
    patience,
    smuggling,
    ssrf,
    texts,
)

SECTIONS = [
    each.ATTACKS
    for each in (
        ssrf,
        smuggling,
        bombs,
        json_bodies,
        headers,
        fields,
        grammars,
        texts,
        names,
        keys,
        patience,
        http2_frames,
        grpc_calls,
    )
]
