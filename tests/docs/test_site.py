"""The site of `docs` builds: links lead somewhere, nothing is loaded from the web, the public API is documented."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import rota
from rota import coordinator, protocol

# One worker builds the site.
pytestmark = pytest.mark.xdist_group("site")

ROOT = Path(__file__).parents[2]
LOADED = re.compile(
    r"<(?:script|img|iframe|source)[^>]* src=\"?(https?:[^\s\">]+)|<link[^>]* href=\"?(https?:[^\s\">]+)"
)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The built site. With `--strict` a link or an anchor that leads nowhere fails the build."""
    built = tmp_path_factory.mktemp("site")
    made = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", built],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert made.returncode == 0, made.stderr
    return built


def test_every_page_is_in_the_site(site: Path) -> None:
    pages = {path.relative_to(ROOT / "docs").with_suffix(".html") for path in (ROOT / "docs").rglob("*.md")}
    pages = {page.with_name("index.html") if page.name == "README.html" else page for page in pages}
    missing = [page for page in pages if not (site / page).exists()]
    assert not missing


def test_the_site_loads_nothing_from_the_web(site: Path) -> None:
    loaded = {
        match[1] or match[2] for page in site.rglob("*.html") for match in LOADED.finditer(page.read_text("utf-8"))
    }
    assert not loaded


def test_the_reference_has_every_public_name(site: Path) -> None:
    reference = "".join(page.read_text("utf-8") for page in (site / "reference").rglob("*.html"))
    public = {
        f"{module.__name__}.{name}"
        for module in (rota, coordinator, protocol)
        for name in module.__all__
        if name[0] != "_"
    }
    assert len(public) > 70
    assert not [name for name in sorted(public) if f'id="{name}"' not in reference]


def docstrings(path: str, names: set[str]) -> list[str]:
    """How the docstrings of these classes and their public methods begin, up to the first mark-up."""
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    classes = [node for node in tree.body if isinstance(node, ast.ClassDef) and node.name in names]
    documented = [
        each for one in classes for each in (one, *one.body) if isinstance(each, ast.ClassDef | ast.FunctionDef)
    ]
    texts = [ast.get_docstring(each) or "" for each in documented if not each.name.startswith("_")]
    begins = [re.split(r"[^\w ,]", text)[0].strip() for text in texts]
    return [begin for begin in begins if len(begin) > 12]


def test_the_reference_has_the_docstrings(site: Path) -> None:
    reference = "".join(page.read_text("utf-8") for page in (site / "reference").rglob("*.html"))
    begins = docstrings("python/rota/server.py", {"Server"})
    begins += docstrings("python/rota/_rota.pyi", {*coordinator.__all__, *protocol.__all__})
    assert len(begins) > 100
    assert not [begin for begin in begins if begin not in reference]


def test_a_link_to_another_host_would_be_found() -> None:
    assert LOADED.search('<link rel="stylesheet" href="https://fonts.example/x.css">')
    assert not LOADED.search('<a href="https://kafka.apache.org/">')
