"""The page of the OpenAPI document: Swagger UI, from the files of its package. It loads nothing from other hosts."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Final

ASSETS: Final = {
    "swagger-ui.css": "text/css",
    "swagger-ui-bundle.js": "text/javascript",
}
OWN: Final = {"explorer.css": "text/css", "explorer.js": "text/javascript"}  # in this folder
CONTENT_SECURITY_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
PAGE: Final = b"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>sluice API</title>
<link rel="icon" href="data:,">
<link rel="stylesheet" href="page/swagger-ui.css">
<link rel="stylesheet" href="page/explorer.css">
</head>
<body>
<header>
<h1>sluice API</h1>
<nav aria-label="Pages">
<a href="docs/">Documentation</a> <a href="./">Chat</a> <a href="status">Status</a> <a href="openapi.json">OpenAPI</a>
</nav>
</header>
<main id="document"></main>
<script src="page/swagger-ui-bundle.js"></script>
<script src="page/explorer.js"></script>
</body>
</html>
"""


def read_assets() -> dict[str, tuple[bytes, str]]:
    """Return (content, media type) of each file that the page loads. Raise FileNotFoundError if one is missing."""
    spec = find_spec("swagger_ui")
    if spec is None or spec.origin is None:
        raise FileNotFoundError("the package swagger-ui-py is not installed")
    package, here = Path(spec.origin).parent / "static", Path(__file__).parent
    files = {name: ((package / name).read_bytes(), media) for name, media in ASSETS.items()}
    return files | {name: ((here / name).read_bytes(), media) for name, media in OWN.items()}
