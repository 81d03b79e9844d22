"""The words of the project as data and functions: banned idioms, one spelling of each term, docstrings that add
nothing, the length of sentences in help, and links within the pages.

`test_words.py` runs them on the tree, and each of them on a planted violation. A breach reads `path:line: what is
wrong`. The glossary with the reasons is in CONTRIBUTING.md.
"""

import ast
import io
import re
import tokenize
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tests.checks.tidy import blocks

IDIOMS: dict[str, str] = {
    r"(?:is|are|was|were|be|been|being|gets?|not|never|hears?) told": "name who notifies or answers whom",
    r"told of": "notified of",
    r"nobody(?:'s)?": "name who does not: no client, no member, no test",
    r"somebody(?:'s)?": "name who does: a client, a member, another process",
    r"whoever": "name who: the client that, the member that",
    r"of which": "two sentences, or `whose`",
    r"comes? of (?:it|that)|came of it": "name the result",
    r"(?:can|cannot|could|must|may|to|not) be had": "is available",
    r"so it is without": "say what is the default",
    r"(?:is|are|be|was) held to": "is compared with, is checked against",
    r"strangers?": "name who: a client without a member id, a new reader",
    r"elders": "earlier appends",
    r"otherwise than": "differently from",
    r"as (?:it|they) stands?": "unchanged",
    r"for who": "for people who",
    r"under (?:their|its|your) eyes": "while clients are connected",
    r"own word": "what it reports",
    r"(?:is|are|was) (?:said in|said of)": "is described in",
    r"in (?:our|your) (?:own )?words": "leave it out",
    r"in (?:your|one's) hands": "name who controls what",
    r"lapses?|lapsed": "expires",
    # The command has this name.
    r"(?<!cluster.)mends?|mended": "repairs",
    r"whence|wherefore|thereof|whereof": "plain words",
    r"(?:is|are) at work": "runs",
    r"makes? of it": "name the result",
    r"that (?:is|are) to be": "that must be",
    r"(?:is|are) none of": "is not",
}
"""Regular expressions of what no page says, matched as whole words without regard to case, with what to write."""

SPELLINGS: dict[str, str] = {
    r"lock-step": "lockstep",
    r"time-outs?": "timeout",
    r"start-?ups?": "start",
    r"re-join(?:s|ed|ing)?": "rejoin",
    r"hand-overs?|hand-?offs?": "handover",
    r"consumer-groups": "consumer groups",
    r"data-?directory|data-dir": "data directory",
    r"writeahead|write ahead log": "write-ahead",
    r"bench-marks?": "benchmark",
    r"fail-over": "failover",
    r"snap-shots?": "snapshot",
    r"commandline": "command line",
}
"""Other spellings of a term, and the one spelling."""

FENCE = re.compile(r"^(```|~~~).*?^\1[^\n]*$", re.MULTILINE | re.DOTALL)
CODE = re.compile(r"`[^`\n]*`|<!--.*?-->|(?<=\]\()[^)\s]+", re.DOTALL)
CODE_SPAN = re.compile(r"`[^`\n]*`")
HEADING = re.compile(r"^(#{1,6}) +(.+?)(?: +#+)?$", re.MULTILINE)
ANCHOR = re.compile(r"<a (?:id|name)=\"([^\"]+)\">|\{ *#([\w.-]+) *\}")
LINK = re.compile(r"\]\(([^)\s]*)\)")


def _blank(match: re.Match[str]) -> str:
    return re.sub(r"[^\n]", " ", match[0])


def prose_of_page(text: str) -> str:
    """The text of a Markdown page with code, comments and link targets blanked out: offsets and lines stay."""
    return CODE.sub(_blank, FENCE.sub(_blank, text))


@cache
def _any_of(patterns: tuple[str, ...]) -> re.Pattern[str]:
    return re.compile("|".join(patterns).replace(" ", r"\s+"), re.IGNORECASE)


def breaches(path: str, prose: str, words: Mapping[str, str]) -> Iterator[str]:
    """Where this prose uses one of these words. A phrase may go over the end of a line."""
    if not _any_of(tuple(words)).search(prose):
        return
    for pattern, instead in words.items():
        spaced = pattern.replace(" ", r"\s+")
        for match in re.finditer(rf"(?<![\w-])(?:{spaced})(?![\w-])", prose, re.IGNORECASE):
            line = prose.count("\n", 0, match.start()) + 1
            yield f"{path}:{line}: `{' '.join(match[0].split())}`: {instead}"


def anchors(text: str) -> set[str]:
    """The anchors of a Markdown page: headings as GitHub and the site name them, and explicit ones."""
    bare = FENCE.sub(_blank, text)
    found = {explicit for match in ANCHOR.finditer(bare) for explicit in match.groups() if explicit}
    for match in HEADING.finditer(bare):
        title = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", match[2]).replace("`", "")
        slug = re.sub(r"[^\w\- ]", "", title.strip().lower()).replace(" ", "-")
        number = 0
        while (name := f"{slug}-{number}" if number else slug) in found:
            number += 1
        found.add(name)
    return found


def dead_links(path: str, text: str, root: Path) -> Iterator[str]:
    """Links of a page to a file that does not exist, or to an anchor that the page it leads to does not have."""
    bare = CODE_SPAN.sub(_blank, FENCE.sub(_blank, text))
    for match in LINK.finditer(bare):
        target, _, anchor = match[1].partition("#")
        if re.match(r"[a-z]+:", match[1]):
            continue
        line = bare.count("\n", 0, match.start()) + 1
        page = (root / path).parent / target if target else root / path
        if target and not page.exists():
            yield f"{path}:{line}: no such file: {target}"
        elif anchor and anchor not in anchors(text if not target else page.read_text(encoding="utf-8")):
            yield f"{path}:{line}: no such anchor: {match[1]}"


# ---- code

FRAGMENT_WORDS_MAX = 4
HELP_WORDS_MAX = 20
FRAGMENT = re.compile(r"(?:Its|Their|Of|As|Such|Likewise|Same|The same|Ditto)\b")
"""How a docstring begins that adds nothing, if it has few words: `Its id.`, `Of a column.`"""
PYTHON_SPAN = re.compile(r"`[^`\n]*`|\b\w+://\S+")
RUST_STRING = re.compile(r'"((?:[^"\\\n]|\\.)* (?:[^"\\\n]|\\.)*)"')
"""A literal with more than one word."""
RUST_PLACEHOLDER = re.compile(r"\{[^{}]*\}")
RUST_COMMENT = re.compile(r"^\s*//[/!]? ?(.*)$", re.MULTILINE)


@dataclass(frozen=True)
class Text:
    """A docstring, comment or message of a program, with the line on which it begins."""

    line: int
    text: str


def docstrings(tree: ast.Module) -> Iterator[Text]:
    """Docstrings of modules, classes and functions, and those of fields."""
    for block in blocks(tree):
        for statement in block:
            match statement:
                case ast.Expr(value=ast.Constant(value=str(text))):
                    yield Text(statement.lineno, text)


def python_comments(source: str) -> Iterator[Text]:
    """Comments of a Python file. Lines that follow each other are one text, because a phrase may go over a line."""
    last: tuple[int, list[str]] | None = None
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type != tokenize.COMMENT:
            continue
        text = token.string.lstrip("#: ")
        if last and token.start[0] == last[0] + len(last[1]):
            last[1].append(text)
            continue
        if last:
            yield Text(last[0], "\n".join(last[1]))
        last = (token.start[0], [text])
    if last:
        yield Text(last[0], "\n".join(last[1]))


def messages(tree: ast.Module) -> Iterator[Text]:
    """String literals with a space, which are text for people: errors, help, output. Docstrings are not among them."""
    skipped = set[int]()
    for node in ast.walk(tree):  # a statement before its value
        match node:
            case ast.Expr(value):
                skipped.add(id(value))
            case ast.Constant(value=str(text)) if " " in text and id(node) not in skipped:
                yield Text(node.lineno, text)


def help_texts(tree: ast.Module) -> Iterator[Text]:
    """The help of options and arguments."""
    for node in ast.walk(tree):
        if isinstance(node, ast.keyword) and node.arg == "help" and isinstance(node.value, ast.Constant):
            yield Text(node.value.lineno, str(node.value.value))


def found_in(path: str, texts: Iterable[Text], words: Mapping[str, str]) -> Iterator[str]:
    """`breaches` of texts of a program; code spans are left out."""
    for text in texts:
        for breach in breaches(path, PYTHON_SPAN.sub(_blank, text.text), words):
            _, line, what = breach.split(":", 2)
            yield f"{path}:{text.line + int(line) - 1}:{what}"


def python_breaches(path: str, source: str, *, with_messages: bool) -> Iterator[str]:
    """Banned idioms, other spellings, and docstrings that are fragments, in a Python file or stub."""
    tree = ast.parse(source)
    documented = list(docstrings(tree))
    texts = [*documented, *python_comments(source)]
    if with_messages:
        texts += messages(tree)
    yield from found_in(path, texts, IDIOMS)
    yield from found_in(path, texts, SPELLINGS)
    for text in documented:
        if len(text.text.split()) <= FRAGMENT_WORDS_MAX and FRAGMENT.match(text.text):
            yield f"{path}:{text.line}: `{text.text}`: say what it is, or leave it out"


def help_breaches(path: str, source: str) -> Iterator[str]:
    """Sentences of help that are longer than a line of a terminal holds."""
    if "help=" not in source:
        return
    for text in help_texts(ast.parse(source)):
        for sentence in re.split(r"(?<=[.;:])\s+", text.text):
            if (count := len(sentence.split())) > HELP_WORDS_MAX:
                yield f"{path}:{text.line}: {count} words in a sentence of help, at most {HELP_WORDS_MAX}"


def rust_breaches(path: str, source: str) -> Iterator[str]:
    """Banned idioms and other spellings in the comments and messages of a Rust file."""
    lines = source.split("\n")
    prose = Text(1, "\n".join(match[1] if (match := RUST_COMMENT.match(line)) else "" for line in lines))
    messages = [
        Text(number, RUST_PLACEHOLDER.sub("", message))
        for number, line in enumerate(lines, 1)
        if not RUST_COMMENT.match(line)
        for message in RUST_STRING.findall(line)
    ]
    yield from found_in(path, [prose, *messages], IDIOMS)
    yield from found_in(path, [prose], SPELLINGS)
