"""The words of the project as data and functions: banned idioms, one spelling of each term, and links within the pages.

`test_words.py` runs them on the tree, and each of them on a planted violation. A breach reads `path:line: what is
wrong`. The glossary with the reasons is in CONTRIBUTING.md.
"""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

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
    r"mends?|mended": "repairs",
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


def breaches(path: str, prose: str, words: Mapping[str, str]) -> Iterator[str]:
    """Where this prose uses one of these words. A phrase may go over the end of a line."""
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
