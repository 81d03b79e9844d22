"""Hooks of the site's generator (`mkdocs.yml`): pages from above `docs`, and links that lead there.

CONTRIBUTING.md, CHANGELOG.md and SECURITY.md become pages of the site. A link to another file of the repository becomes
its path in code type, since the site has no such file.
"""

from __future__ import annotations

import re
from pathlib import Path, PurePosixPath
from posixpath import normpath, relpath
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parent.parent
ABOVE = ("CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md")
LINK = re.compile(r"(!?)\[([^\]]*)\]\(([^)\s#:]+)(#[^)\s]*)?\)")


def on_files(files: Files, config: Any) -> Files:
    """Add the pages from above `docs`."""
    for name in ABOVE:
        files.append(File.generated(config, name, content=(ROOT / name).read_text(encoding="utf-8")))
    return files


def on_page_markdown(markdown: str, page: Any, files: Files, **_: Any) -> str:
    """Point each link to where the page is in the site."""
    source = page.file.src_uri
    folder = PurePosixPath() if source in ABOVE else PurePosixPath("docs", source).parent

    def relinked(link: re.Match[str]) -> str:
        picture, text, target, anchor = link[1], link[2], link[3], link[4] or ""
        path = normpath(str(folder / target))
        uri = path.removeprefix("docs/")
        if files.get_file_from_path(uri) and (path.startswith("docs/") or path in ABOVE):
            return f"{picture}[{text}]({relpath(uri, str(PurePosixPath(source).parent))}{anchor})"
        return f"{text} (`{path}`)" if (ROOT / path).exists() and not picture else link[0]

    return LINK.sub(relinked, markdown)
