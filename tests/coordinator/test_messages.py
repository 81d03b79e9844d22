"""Every request and answer has one description, the table in `rust/core/src/messages.rs`. The Rust types, the journal's
types and the compiled classes are made from it. The stub and the model are written by hand: they are compared with it.
"""

from __future__ import annotations

import ast
import dataclasses
from typing import Any, get_args

import pytest

import rota
from rota import _rota
from rota.model import requests as model
from tests.checks.tidy import ROOT

#: Name of a message or an element: its fields and their kinds, in order.
Table = dict[str, dict[str, str]]

MESSAGES: Table = {name: dict(fields) for name, fields in _rota.vocabulary()["messages"]}
STUB = (ROOT / "python/rota/_rota.pyi").read_text(encoding="utf-8")

KINDS = {"Text": "str", "Bytes": "bytes", "bool": "bool", "i16": "int", "i32": "int", "i64": "int", "u128": "int"}
KINDS |= {"i8": "int", "Indexes": "tuple[int, ...]"}

#: What Python has in place of `topics`: one entry for each partition, and the ids of the topics apart.
FLAT = {
    "OffsetCommit": {"offsets", "topic_ids"},
    "OffsetFetch": {"partitions", "topic_ids", "member_id", "member_epoch"},
    "OffsetDelete": {"partitions"},
    "TxnOffsetCommit": {"offsets", "topic_ids"},
    "CommitAnswer": {"partitions"},
    "FetchAnswer": {"partitions"},
    "OffsetDeleteAnswer": {"partitions"},
}

#: Elements that are tuples in Python. `rota.protocol.Assignment` is a message of the embedded protocol.
TUPLES = {"Protocol", "Assignment", "LeaveIdentity", "TopicPartitions"}

#: What the model has no use for: fields that are only shown.
NOT_IN_THE_MODEL = {"JoinGroup": {"reason"}}


def classes() -> list[str]:
    """The messages and elements that are classes in Python."""
    return [name for name, fields in MESSAGES.items() if fields and name not in TUPLES and hasattr(_rota, name)]


def python_type(kind: str, messages: Table) -> str:
    """The annotation of a field of this kind. Elements that are no classes are tuples."""
    if kind.endswith(" or null"):
        return f"{python_type(kind.removesuffix(' or null'), messages)} | None"
    if not kind.startswith("["):
        return KINDS.get(kind, kind)
    element = kind.strip("[]")
    if element in TUPLES:
        inner = ", ".join(python_type(each, messages) for each in messages[element].values())
        return f"tuple[tuple[{inner}], ...]"
    return f"tuple[{python_type(element, messages)}, ...]"


def class_complaints(messages: Table) -> list[str]:
    """Where the classes have other fields than the table."""
    found = []
    for name in classes():
        flat = FLAT.get(name, set())
        expected = {field for field in messages[name] if not (flat and field == "topics")} | flat
        fields = set(getattr(_rota, name).__match_args__) - {"ticket"}
        if fields != expected:
            found.append(f"{name} differs in {sorted(fields ^ expected)}")
    return found


def stub_complaints(stub: str, messages: Table) -> list[str]:
    """Where the stub has other attributes, or another type, than the table."""
    bodies = {node.name: node.body for node in ast.parse(stub).body if isinstance(node, ast.ClassDef)}
    found = []
    for name in classes():
        given = {
            statement.target.id: ast.unparse(statement.annotation)
            for statement in bodies[name]
            if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name)
        }
        del given["__match_args__"]
        if (names := tuple(given)) != (expected := getattr(_rota, name).__match_args__):
            found.append(f"{name} has the attributes {names}, expected {expected}")
        for field, kind in messages[name].items():
            annotation = f"Final[{python_type(kind, messages)}]"
            if not (name in FLAT and field == "topics") and given.get(field) != annotation:
                found.append(f"{name}.{field} is {given.get(field)}, expected {annotation}")
    return found


def test_the_table_has_every_request_and_answer() -> None:
    unions: list[Any] = [*get_args(rota.protocol.Request), *get_args(rota.protocol.Answer)]
    assert {each.__name__ for each in unions} - {"HeartbeatAnswer"} <= set(classes())


def test_the_classes_have_the_fields_of_the_table() -> None:
    assert class_complaints(MESSAGES) == []


def test_an_answer_has_its_ticket_and_then_the_fields_in_the_order_of_the_table() -> None:
    answers: list[Any] = list(get_args(rota.protocol.Answer))
    for answer in answers:
        if answer.__name__ in MESSAGES and answer.__name__ not in FLAT:
            assert answer.__match_args__ == ("ticket", *MESSAGES[answer.__name__])


def test_the_stub_has_the_fields_and_types_of_the_table() -> None:
    assert stub_complaints(STUB, MESSAGES) == []


@pytest.mark.parametrize("name", _rota.vocabulary()["requests"])
def test_the_model_has_the_fields_of_the_classes(name: str) -> None:
    fields = {field.name for field in dataclasses.fields(getattr(model, name))}
    assert fields == set(getattr(_rota, name).__match_args__) - NOT_IN_THE_MODEL.get(name, set())


@pytest.mark.parametrize("name", classes())
def test_a_new_field_is_missed_in_the_classes_and_in_the_stub(name: str) -> None:
    grown = {**MESSAGES, name: {**MESSAGES[name], "planted": "i32"}}
    assert class_complaints(grown) == [f"{name} differs in ['planted']"]
    assert f"{name}.planted is None, expected Final[int]" in stub_complaints(STUB, grown)
