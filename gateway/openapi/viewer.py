"""The page that shows the document: Swagger UI, from its package's own files. It loads nothing from other hosts."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Final

ASSETS: Final = {
    "swagger-ui.css": "text/css",
    "swagger-ui-bundle.js": "text/javascript",
}
CONTENT_SECURITY_POLICY: Final = (
    "default-src 'none'; connect-src 'self'; img-src 'self' data:; style-src 'self' 'unsafe-inline'; script-src 'self'"
)
PAGE: Final = b"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>sluice API</title>
<link rel="icon" href="data:,">
<link rel="stylesheet" href="docs/swagger-ui.css">
</head>
<body>
<main id="document"></main>
<script src="docs/swagger-ui-bundle.js"></script>
<script src="docs/start.js"></script>
</body>
</html>
"""
START: Final = b"""SwaggerUIBundle({ url: "openapi.json", dom_id: "#document", docExpansion: "none" });
"""


def read_assets() -> dict[str, tuple[bytes, str]]:
    """(content, media type) of each of the package's files by name. Raises FileNotFoundError if it is not whole."""
    spec = find_spec("swagger_ui")
    if spec is None or spec.origin is None:
        raise FileNotFoundError("the package swagger-ui-py is not installed")
    folder = Path(spec.origin).parent / "static"
    files = {name: ((folder / name).read_bytes(), media) for name, media in ASSETS.items()}
    return files | {"start.js": (START, "text/javascript")}
