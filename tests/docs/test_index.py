"""The index of `docs` leads to every page, and each reader's path is short."""

import re
from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs"
INDEX = (DOCS / "README.md").read_text(encoding="utf-8")
PATH_MAX = 4  # pages


def links(text: str) -> list[str]:
    return re.findall(r"\]\(([^)#\s]+)\)", text)


def test_each_path_has_at_most_four_pages() -> None:
    paths = [links(row) for row in INDEX.split("\n## ")[0].splitlines() if " → " in row]
    assert len(paths) == 7
    assert all(2 <= len(path) <= PATH_MAX for path in paths), paths


def test_the_index_leads_to_every_page() -> None:
    pages = {path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md")} - {"README.md"}
    reference = {page for page in pages if page.startswith("reference/") and page != "reference/index.md"}
    assert not pages - reference - set(links(INDEX))
