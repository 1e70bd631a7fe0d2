"""The documentation under /docs/, with and without built pages."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest
from starlette.applications import Starlette

from gateway.page.routes import documentation_routes


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """Create a folder of pages next to a file that must not be served."""
    (tmp_path / "site" / "api").mkdir(parents=True)
    (tmp_path / "site" / "index.html").write_text("<h1>First</h1>")
    (tmp_path / "site" / "api" / "openai.html").write_text("<h1>OpenAI</h1>")
    (tmp_path / "site" / "notes.py").write_text("no page")
    (tmp_path / "secret.html").write_text("secret")
    return tmp_path / "site"


def client(site: Path) -> httpx.AsyncClient:
    """Return a client of an application that serves only the documentation."""
    transport = httpx.ASGITransport(Starlette(routes=documentation_routes(site)))
    return httpx.AsyncClient(transport=transport, base_url="http://server")


async def test_page_paths_follow_the_files(site: Path) -> None:
    """Each page has the security policy and is revalidated by its tag; the folder itself is its first page."""
    async with client(site) as http:
        first, other = await http.get("/docs/"), await http.get("/docs/api/openai.html")
        assert (first.text, other.text) == ("<h1>First</h1>", "<h1>OpenAI</h1>")
        assert "default-src 'none'" in other.headers["content-security-policy"]
        assert (await http.get("/docs/", headers={"if-none-match": first.headers["etag"]})).status_code == 304


@pytest.mark.parametrize("path", ["nothing.html", "api", "notes.py", "..%2fsecret.html", "%2e%2e/secret.html"])
async def test_unknown_path_names_the_location_of_the_pages(site: Path, path: str) -> None:
    """Unknown paths get an answer that names the location of the pages."""
    async with client(site) as http:
        answer = await http.get(f"/docs/{path}")
        assert answer.status_code == 404
        assert 'href="/docs/"' in answer.text


async def test_docs_redirects_to_the_api_reference_without_pages(tmp_path: Path) -> None:
    """Without pages, /docs/ redirects to the API reference."""
    async with client(tmp_path) as http:
        answer = await http.get("/docs/")
        assert (answer.status_code, str(answer.next_request and answer.next_request.url)) == (307, "http://server/docs")
