"""The drawings of docs/architecture.md are those of the tree. `drawings.py` makes them."""

import xml.etree.ElementTree as ET
from itertools import pairwise

from tests.checks import drawings

FAN = {"a": {"b", "c", "d"}, "b": {"c"}, "c": {"d"}, "d": set[str]()}


def test_the_drawings_are_those_of_the_tree() -> None:
    old = [path.name for path, text in drawings.drawings().items() if path.read_text(encoding="utf-8") != text]
    assert not old, f"make drawings: {old}"


def test_every_box_has_its_note() -> None:
    assert {*drawings.crates(), *drawings.dataflow()} <= drawings.NOTES.keys()


def test_an_arrow_that_follows_from_others_is_left_out() -> None:
    assert drawings.reduced(FAN) == {"a": {"b"}, "b": {"c"}, "c": {"d"}, "d": set()}


def test_callers_are_above_what_they_call_and_arrows_go_row_by_row() -> None:
    rows = drawings.rows_of(FAN)
    assert [[place.name for place in row if place.is_box] for row in rows] == [["a"], ["b"], ["c"], ["d"]]
    for upper, lower in pairwise(rows):
        assert all(below in lower for place in upper for below in place.below)


def test_boxes_of_a_row_do_not_overlap() -> None:
    for graph in (drawings.crates(), drawings.dataflow()):
        rows = drawings.rows_of(drawings.reduced(graph))
        drawings.arrange(rows)
        for row in rows:
            assert all(right.x - left.x >= (left.width + right.width) / 2 for left, right in pairwise(row))


def test_a_drawing_is_well_formed_and_names_every_box() -> None:
    drawn = ET.fromstring(drawings.svg(FAN, "a & b"))
    texts = {text.text for text in drawn.iter("{http://www.w3.org/2000/svg}text")}
    assert texts >= FAN.keys()
