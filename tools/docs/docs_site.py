"""Build the documentation site: `make docs`, offline, in gateway/page/site/, from which the gateway serves it.

The pages are docs/ and the files of OTHERS, copied with their links rewritten for the site; a link to a file without a
page, such as a source file, becomes plain text. A broken link is an error. Pages that NAVIGATION doesn't name are
listed under "More". Scripts that the generator writes into pages are moved to files, so that the gateway's policy need
not allow inline scripts.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TypeAlias

Navigation: TypeAlias = Mapping[str, Sequence[str]]

ROOT: Final = Path(__file__).resolve().parents[2]
DOCS: Final = ROOT / "docs"
SITE: Final = ROOT / "gateway" / "page" / "site"
GENERATOR: Final = ROOT / ".venvs" / "tool-docs" / "bin" / "zensical"
OTHERS: Final = {  # files outside docs/ that are also pages, and their paths in the site
    "README.md": "index.md",  # links to it lead to the first page, whose text is docs/index.md
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
    "CHANGELOG.md": "changelog.md",
    "bench/README.md": "measurements.md",
    "demo/README.md": "demo_model.md",
    "examples/README.md": "examples.md",
    "clients/python/README.md": "clients/python.md",
    "clients/typescript/README.md": "clients/typescript.md",
}
NAVIGATION: Final[Navigation] = {
    "Start": ["index", "getting_started", "command", "faq", "asked"],
    "REST": [
        "api", "api/openai", "api/responses", "api/extensions", "api/databricks", "api/azure", "api/anthropic",
        "api/cohere", "api/ollama", "api/rank", "api/mindie", "api/kserve", "api/clients", "api/agents", "errors",
        "conformance",
    ],
    "gRPC": ["grpc", "grpc_reference", "clients/python", "clients/typescript", "examples"],
    "Features": [
        "features/streams", "features/progress", "features/stored_responses", "features/background",
        "features/conversations", "features/batches", "features/idempotency", "features/receipts", "features/tools",
        "features/images", "features/prompt_cache",
    ],
    "Models": [
        "models", "models/endpoints", "models/loading", "models/on_demand", "models/checkpoints", "models/adapters",
        "models/parallel", "models/gpu", "demo_model",
    ],
    "Operation": [
        "operation/production", "operation/deployment", "operation/operations", "operation/backup",
        "operation/postgres", "settings", "operation/metrics", "operation/telemetry_names", "operation/envoy",
        "operation/routers", "operation/reliability", "operation/performance", "operation/scale", "measurements",
    ],
    "Alerts": ["runbooks/index", "runbooks/*"],
    "Security": ["security", "security/keys", "security/limits", "security/fairness", "security/tls"],
    "Inside": ["architecture", "decisions", "contributing", "changelog"],
}  # fmt: skip
_TITLES: Final = {  # replace headings that suit only the page alone
    "index": "What it is",
    "clients/python": "Python client",
    "clients/typescript": "TypeScript client",
    "demo_model": "The bundled model",
    "measurements": "Parts, measured",
}

_LINK: Final = re.compile(r"(?P<image>!?)\[(?P<text>[^\]]*)\]\((?P<target>[^)\s]+)\)")
_HEADING: Final = re.compile(r"^# (.+)$", re.MULTILINE)
_SCRIPT: Final = re.compile(r"<script>(.*?)</script>", re.DOTALL)
_FEATURES: Final = [
    "content.code.copy", "navigation.footer", "navigation.sections", "navigation.top", "search.highlight", "toc.follow",
]  # fmt: skip
_PALETTES: Final = (  # light and dark, by the reader's system setting, with a switch
    {"media": "(prefers-color-scheme: light)", "scheme": "default", "toggle": {"icon": "lucide/sun", "name": "Dark"}},
    {"media": "(prefers-color-scheme: dark)", "scheme": "slate", "toggle": {"icon": "lucide/moon", "name": "Light"}},
)
_EXTENSIONS: Final[Mapping[str, Any]] = {
    "tables": {"use_align_attribute": True},  # no inline styles
    "toc": {"permalink": True, "slugify": {"object": "pymdownx.slugs.slugify", "kwds": {"case": "lower"}}},
    "pymdownx.highlight": {"pygments_lang_class": True},
    "pymdownx.superfences": {},
    "pymdownx.inlinehilite": {},
}


class SiteError(Exception):
    """The site can't be built; the message has one line with the reason."""


def build(folder: Path = SITE) -> int:
    """Build the whole site in `folder`, which is emptied, and return the number of pages. Raise SiteError."""
    with tempfile.TemporaryDirectory() as temporary:
        work = Path(temporary)
        stage(work / "docs")
        sections = complete(NAVIGATION, work / "docs")
        (work / "zensical.toml").write_text(_config(sections, work / "docs"))
        command: list[str | Path] = [GENERATOR, "build", "--clean", "--strict"]
        plain = {**os.environ, "NO_COLOR": "1"}
        done = subprocess.run(command, cwd=work, capture_output=True, text=True, check=False, env=plain)
        if done.returncode:
            raise SiteError(f"the generator failed:\n{done.stdout}{done.stderr}")
        for name in ("404.html", "sitemap.xml"):  # only useful for a site with its own address
            (work / "site" / name).unlink(missing_ok=True)
        made_pages = sorted((work / "site").rglob("*.html"))
        for page in made_pages:
            _scripts_to_files(page, work / "site")
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(work / "site", folder)
    return len(made_pages)


def pages() -> dict[Path, str]:
    """Return each file that is a page, and its path in the site."""
    paths = {path: path.relative_to(DOCS).as_posix() for path in sorted(DOCS.rglob("*.md"))}
    # A folder's README is its first page.
    paths = {path: site_path.replace("README.md", "index.md") for path, site_path in paths.items()}
    return paths | {ROOT / name: site_path for name, site_path in OTHERS.items() if name != "README.md"}


def stage(folder: Path) -> None:
    """Write the pages' sources, with links for the site, and the other files of docs/."""
    site_paths = pages() | {ROOT / "README.md": OTHERS["README.md"]}
    for path, site_path in pages().items():
        to = folder / site_path
        to.parent.mkdir(parents=True, exist_ok=True)
        to.write_text(rewritten(path, site_path, site_paths))
    for path in DOCS.rglob("*"):
        if path.is_file() and path.suffix != ".md":
            to = folder / path.relative_to(DOCS)
            to.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, to)


def rewritten(path: Path, site_path: str, site_paths: Mapping[Path, str]) -> str:
    """Return a page's text with its links rewritten. Raise SiteError for a link to no file."""

    def rewrite(match: re.Match[str]) -> str:
        target, _, anchor = match["target"].partition("#")
        if not target or re.match(r"[a-z]+:", target):
            return match[0]
        linked = Path(os.path.normpath(path.parent / target))
        if not linked.exists():
            raise SiteError(f"{path.relative_to(ROOT)}: the link target {target} does not exist")
        if linked in site_paths:
            to = os.path.relpath(site_paths[linked], Path(site_path).parent)
        elif linked.is_relative_to(DOCS) and linked.is_file():
            to = os.path.relpath(linked.relative_to(DOCS), Path(site_path).parent)
        else:
            return "" if match["image"] else match["text"]
        return f"{match['image']}[{match['text']}]({to}{'#' * bool(anchor)}{anchor})"

    # Every second part is code, which has no links; a link may have code in its text.
    text = path.read_text()
    fences = re.split(r"(^ *```.*?^ *```$)", text, flags=re.MULTILINE | re.DOTALL)
    return "".join(part if index % 2 else _LINK.sub(rewrite, part) for index, part in enumerate(fences))


def complete(sections: Navigation, folder: Path) -> dict[str, list[str]]:
    """Return the navigation with every page of `folder`; unnamed pages come last. Raise SiteError for a missing page.

    FOLDER/* stands for all pages of the folder that are not named.
    """
    existing = {path.relative_to(folder).with_suffix("").as_posix() for path in folder.rglob("*.md")}
    named = {name for names in sections.values() for name in names if not name.endswith("/*")}
    if missing := sorted(named - existing):
        raise SiteError(f"the navigation names missing pages: {', '.join(missing)}")
    found: dict[str, list[str]] = {}
    for title, names in sections.items():
        found[title] = []
        for name in names:
            inside = [each for each in sorted(existing - named) if each.startswith(name.removesuffix("*"))]
            found[title] += inside if name.endswith("/*") else [name]
    more = sorted(existing - {name for names in found.values() for name in names})
    return found | ({"More": more} if more else {})


def _config(sections: Mapping[str, Sequence[str]], folder: Path) -> str:
    def title(name: str) -> str:
        if name in _TITLES:
            return _TITLES[name]
        heading = _HEADING.search((folder / f"{name}.md").read_text())
        if heading is None:
            raise SiteError(f"{name}.md has no heading")
        return heading[1].replace("`", "")

    nav = [{section: [{title(name): f"{name}.md"} for name in names]} for section, names in sections.items()]
    project = {
        "site_name": "sluice",
        "site_description": "An LLM inference server: REST in the dialects of many vendors, and gRPC.",
        "use_directory_urls": False,  # the pages are files, which any web server can serve
        "nav": nav,
        "theme": {"font": False, "features": _FEATURES, "palette": list(_PALETTES)},
        "markdown_extensions": _EXTENSIONS,
        "extra": {"generator": False},
        "extra_css": ["assets/site.css"],
        "extra_javascript": ["assets/site.js"],
    }
    return "[project]\n" + "\n".join(f"{name} = {_toml(value)}" for name, value in project.items()) + "\n"


def _toml(value: object) -> str:
    """Return a value in TOML, whose strings and arrays equal JSON's."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{json.dumps(name)} = {_toml(each)}" for name, each in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_toml, value)) + "]"
    return json.dumps(value, ensure_ascii=False)


def _scripts_to_files(page: Path, site: Path) -> None:
    scripts = site / "assets" / "javascripts"

    def move(match: re.Match[str]) -> str:
        name = f"page.{hashlib.sha256(match[1].encode()).hexdigest()[:8]}.js"
        (scripts / name).write_text(match[1])
        return f'<script src="{os.path.relpath(scripts / name, page.parent)}"></script>'

    page.write_text(_SCRIPT.sub(move, page.read_text()))


if __name__ == "__main__":
    try:
        count = build()
    except SiteError as error:
        sys.exit(f"docs: {error}")
    print(f"{count} pages in {SITE.relative_to(ROOT)}; the gateway serves them at /docs/ after its next start")
