"""The batch calls with and without numpy: any buffer goes in; numpy arrays come out where numpy is installed."""

from __future__ import annotations

import subprocess
import sys
from array import array
from typing import Any

import numpy as np
import pytest

from rota.assign import FlatGroup

from .steps import stable

WITHOUT_NUMPY = """
import sys
sys.modules["numpy"] = None
from array import array

import rota
from rota.assign import FlatGroup

core = rota.coordinator.Coordinator()
core.loaded(0)
handles = core.member_handles("g", ["a", "b"])
assert (type(handles), handles.typecode, handles.tolist()) == (array, "Q", [2**64 - 1] * 2), handles
codes = core.heartbeats(0, handles, array("i", [1, 1]))
assert (type(codes), codes.typecode, codes.tolist()) == (array, "h", [25, 25]), codes
assert core.heartbeats(0, handles[:0], array("i")).tolist() == []
group = FlatGroup(array("I", [0, 4]), array("I", [0, 1, 2]), array("I", [0, 0]))
owners = group.assign("range")
assert (type(owners), owners.tolist()) == (array, [0, 0, 1, 1]), owners
assert group.certify(owners).best_balance
assert not [name for name in sys.modules if name.startswith("numpy.")]
"""


def test_batch_calls_work_without_numpy() -> None:
    done = subprocess.run([sys.executable, "-c", WITHOUT_NUMPY], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("of", [lambda a: a, memoryview, lambda a: np.frombuffer(a, dtype=a.typecode)])
def test_any_buffer_is_an_array(of: Any) -> None:
    driver, member_id = stable()
    handles = array("Q", driver.coordinator.member_handles("g", [member_id, "nobody"]).tolist())
    codes = driver.coordinator.heartbeats(0, of(handles), of(array("i", [1, 1])))
    assert isinstance(codes, np.ndarray)
    assert codes.tolist() == [0, 25]


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (b"12345678", r"handles must be .* uint64 .*, not bytes of format \"B\" and shape \[8\]"),
        (array("q", [1]), r"not array of format \"q\" and shape \[1\]"),
        (memoryview(bytes(16)).cast("Q", (1, 2)), r"not memoryview of format \"Q\" and shape \[1, 2\]"),
    ],
)
def test_a_buffer_of_something_else_is_refused(bad: Any, message: str) -> None:
    driver, _ = stable()
    with pytest.raises(ValueError, match=message):
        driver.coordinator.heartbeats(0, bad, array("i", [1]))


def test_a_group_on_arrays_takes_any_buffer_and_names_what_is_none() -> None:
    starts, members, subscriptions = array("I", [0, 4]), array("I", [0, 1, 2]), array("I", [0, 0])
    assert FlatGroup(starts, memoryview(members), subscriptions).assign("range").tolist() == [0, 0, 1, 1]
    with pytest.raises(TypeError, match=r"(?s)a one-dimensional array of uint32 .*, not list.*member_starts"):
        FlatGroup(starts, [0, 1, 2], subscriptions)  # type: ignore[arg-type]
