"""Format the output of all processes as JSON, one object per line, for collectors of logs."""

from __future__ import annotations

import json
from datetime import UTC, datetime

from process.logs.terminal import plain


def json_line(name: str, text: str) -> str:
    """Return a log line of the process `name` as a JSON object with its name as `process`.

    A line that is no JSON object, such as Envoy's own messages, becomes the `message` of one.
    """
    try:
        given = json.loads(text)
    except ValueError:
        given = None
    if not isinstance(given, dict):
        now = datetime.now(UTC).isoformat(timespec="milliseconds")
        given = {"time": now, "level": "info", "message": plain(text)}
    return json.dumps({"process": name, **given}, ensure_ascii=True, separators=(",", ":"))
