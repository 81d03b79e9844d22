"""The page as files: nothing in it could run what a client has chosen. `make page` looks at it in a browser."""

from __future__ import annotations

import re
from importlib import resources

import pytest

import rota

from .asking import ask

PAGE = resources.files("rota.http")
TYPES = {"/": "text/html", "/page.js": "text/javascript", "/page.css": "text/css"}


def test_the_page_and_its_files_are_served() -> None:
    with rota.Server(http=":0") as server:
        for path, media_type in TYPES.items():
            status, headers, body = ask(server, path)
            assert (status, headers["Content-Type"]) == (200, f"{media_type}; charset=utf-8")
            assert body == PAGE.joinpath("page.html" if path == "/" else path[1:]).read_bytes()
            assert "script-src 'self';" in headers["Content-Security-Policy"]


def test_the_page_has_no_script_or_style_within_and_needs_nobody_else() -> None:
    html = PAGE.joinpath("page.html").read_text()
    assert re.findall(r"<script[^>]*>([^<]*)</script>", html) == [""]
    assert "<style" not in html
    assert not re.search(r"\s(on\w+|style)=", html)
    for name in ("page.html", "page.js", "page.css"):
        addresses = set(re.findall(r"\w+://[^\s\"')]+", PAGE.joinpath(name).read_text()))
        assert addresses <= {"http://www.w3.org/2000/svg"}, name


@pytest.mark.parametrize(
    "word", ["innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "Function("]
)
def test_the_script_never_makes_markup_or_code_of_text(word: str) -> None:
    assert word not in PAGE.joinpath("page.js").read_text()
