"""`rota/specs/vocabulary.toml` is the one vocabulary: the Rust enums and the protocol page are compared with it."""

import re
import tomllib
from typing import Any

import pytest

from rota import _rota
from tests.checks.tidy import ROOT, sections_of

VOCABULARY: dict[str, list[dict[str, Any]]] = tomllib.loads(
    (ROOT / "python/rota/specs/vocabulary.toml").read_text(encoding="utf-8")
)
WORDS: Any = _rota.vocabulary()
PAGE = (ROOT / "docs/protocol.md").read_text(encoding="utf-8")
PAGES = {name: (ROOT / f"docs/{name}.md").read_text(encoding="utf-8") for name in ("protocol", "consumer-protocol")}

OWNERS = {"proof", "arithmetic", "explorer", "model", "oracle", "simulator", "clients"}


def names(kind: str, entries: dict[str, list[dict[str, Any]]] = VOCABULARY) -> list[str]:
    return [entry["name"] for entry in entries[kind]]


def unsourced(entries: dict[str, list[dict[str, Any]]]) -> list[str]:
    """The entries without a source that exists: a section of the page, or a class of Kafka."""
    sections = {page: sections_of(text) for page, text in PAGES.items()}
    found = []
    for kind, listed in entries.items():
        for entry in listed:
            source = entry.get("source", "")
            section = re.fullmatch(r"docs/([\w-]+)\.md §([\d.]+)", source)
            is_section = section and section[2] in sections.get(section[1], ())
            if not is_section and not re.fullmatch(r"Kafka: (\w+\.)+\w+", source):
                found.append(f"{kind}: {entry.get('name', entry)} has the source {source!r}")
    return found


def unowned(invariants: list[dict[str, Any]]) -> list[str]:
    """The invariants without an owner."""
    return [invariant["id"] for invariant in invariants if invariant.get("owner") not in OWNERS]


# ---- the Rust enums


@pytest.mark.parametrize(
    "kind", ["states", "consumer_states", "causes", "waits", "departures", "requests", "operations"]
)
def test_the_core_has_exactly_these_names(kind: str) -> None:
    assert sorted(WORDS[kind]) == sorted(names(kind))


def test_the_core_has_the_states_in_the_order_of_the_page() -> None:
    assert list(WORDS["states"]) == names("states")
    assert list(WORDS["consumer_states"]) == names("consumer_states")


def test_the_core_has_exactly_these_transitions() -> None:
    listed = {(entry["from"], entry["to"]) for entry in VOCABULARY["transitions"]}
    assert {tuple(edge) for edge in WORDS["transitions"]} == listed


def test_the_core_has_exactly_these_errors() -> None:
    listed = {entry["name"]: entry["code"] for entry in VOCABULARY["errors"]}
    assert dict(WORDS["errors"]) == listed


# ---- the file in itself


@pytest.mark.parametrize("kind", sorted(set(VOCABULARY) - {"transitions", "invariants"}))
def test_no_name_occurs_twice(kind: str) -> None:
    assert len(set(names(kind))) == len(names(kind))


def test_transitions_are_between_states() -> None:
    ends = {entry[end] for entry in VOCABULARY["transitions"] for end in ("from", "to")}
    assert ends == set(names("states"))
    edges = [(entry["from"], entry["to"]) for entry in VOCABULARY["transitions"]]
    assert len(set(edges)) == len(edges)


def test_every_entry_has_a_source_that_exists() -> None:
    assert not unsourced(VOCABULARY)


def test_a_planted_source_is_found() -> None:
    assert unsourced({"states": [{"name": "Lost", "source": "docs/protocol.md §" + "77"}]})
    assert unsourced({"states": [{"name": "Lost"}]})


def test_the_invariants_are_s1_to_s34_and_l1_to_l7() -> None:
    expected = [f"S{number}" for number in range(1, 35)] + [f"L{number}" for number in range(1, 8)]
    assert [invariant["id"] for invariant in VOCABULARY["invariants"]] == expected


def test_the_invariants_of_the_newer_protocol_are_c1_to_c20() -> None:
    listed = VOCABULARY["consumer_invariants"]
    assert [invariant["id"] for invariant in listed] == [f"C{number}" for number in range(1, 21)]


def test_every_invariant_has_an_owner() -> None:
    assert not unowned(VOCABULARY["invariants"] + VOCABULARY["consumer_invariants"])


def test_a_planted_invariant_without_an_owner_is_found() -> None:
    assert unowned([{"id": "S99"}, {"id": "S98", "owner": "nobody"}, {"id": "S97", "owner": "model"}]) == ["S99", "S98"]


# ---- the page


def test_the_page_draws_the_same_transitions() -> None:
    table = PAGE.split("\n## 2 ")[1].split("\n## ")[0]
    rows = re.findall(r"^\| (\w+) \| (\w+) \| ", table, re.MULTILINE)
    states = set(names("states"))
    drawn = {(start, end) for start, end in rows if start in states and end in states}
    alive = {(e["from"], e["to"]) for e in VOCABULARY["transitions"] if e["to"] != "Dead"}
    assert drawn == alive
    assert "| any, including Dead | Dead |" in table


def test_the_page_gives_the_same_error_codes() -> None:
    table = PAGE.split("\n### 1.3 ")[1].split("\n## ")[0]
    rows = re.findall(r"^\| (-?\d+) \| ([A-Z_]+) \|", table, re.MULTILINE)
    codes = {entry["name"]: entry["code"] for entry in VOCABULARY["errors"]}
    assert rows
    assert {name: codes.get(name) for _, name in rows} == {name: int(code) for code, name in rows}


def test_every_error_that_the_page_names_is_in_the_vocabulary() -> None:
    # What a log may say, and what only DeleteRecords and ElectLeaders answer, which ask no coordinator.
    codes = set(names("errors")) | {"INVALID_FETCH_SIZE", "POLICY_VIOLATION", "ELECTION_NOT_NEEDED"}
    named = set(re.findall(r"\b[A-Z]{3,}(?:_[A-Z]+)+\b", PAGE))
    assert named - codes == set()


def test_every_request_that_the_server_takes_goes_over_an_api() -> None:
    assert {request["api"] for request in VOCABULARY["requests"] if "api" in request} <= set(names("apis"))


def number_or_never(written: str) -> int | str:
    return int(written) if written.isdigit() else written.lower()


def versions(written: str) -> list[int]:
    """`2-10`, or `0` for that one version."""
    first, _, last = written.partition("-")
    return [int(first), int(last or first)]


def test_the_page_gives_the_same_versions_of_every_api() -> None:
    table = PAGE.split("\n### 17.3 ")[1].split("\n## ")[0]
    rows = re.findall(r"^\| (\w+) \((\d+)\) \| ([\d-]+) \| ([\d-]+) \| (\d+|never) \|", table, re.MULTILINE)
    drawn = {
        name: [int(key), *versions(kafka), *versions(served), number_or_never(flexible)]
        for name, key, kafka, served, flexible in rows
    }
    apis = {api["name"]: [api["key"], *api["kafka"], *api["served"], api["flexible"]] for api in VOCABULARY["apis"]}
    assert drawn == apis


def test_the_server_has_exactly_these_apis() -> None:
    """The crate is no part of the module, so its table is read as text."""
    source = (ROOT / "rust/wire/src/versions.rs").read_text(encoding="utf-8")
    # The APIs of authentication have a table of their own: groups know nothing of them.
    tables = [source.partition(f"pub static {name}:")[2].partition("];")[0] for name in ("APIS", "TRANSACTION_APIS")]
    rows = re.findall(r'\bapi\([A-Z_]+, "(\w+)", (\d+), (\d+), (\d+|NEVER)\)', "".join(tables))
    has = {name: [number_or_never(number) for number in numbers] for name, *numbers in rows}
    assert has == {api["name"]: [*api["served"], api["flexible"]] for api in VOCABULARY["apis"]}
