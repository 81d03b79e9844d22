"""Which names `import rota` offers, and that the names of before still work."""

from __future__ import annotations

import pickle
import subprocess
import sys
import warnings
from typing import Any, assert_type

import pytest

import rota

# A screen of names, the lazy modules among them.
NAMES_MAX = 25

# What a type checker would not let through.
untyped: Any = rota

MOVED = [
    (module.__name__, name)
    for module in (rota.protocol, rota.coordinator)
    for name in module.__all__
    if name not in rota.__all__
]


def test_the_top_level_fits_on_one_screen() -> None:
    shown = [name for name in dir(rota) if not name.startswith("_")]
    assert set(rota.__all__) - {"__version__"} <= set(shown)
    assert len(rota.__all__) <= NAMES_MAX
    assert {"Server", "VirtualClock", "protocol", "coordinator", "member", "assign"} <= set(shown)
    assert not {name for _, name in MOVED} & set(shown)


def test_the_module_docstring_begins_with_server_clock_and_fixtures() -> None:
    doc = rota.__doc__ or ""
    places = [doc.index(word) for word in ("`Server`", "`VirtualClock`", "rota_server", "`RotaError`", "rota.protocol")]
    assert places == sorted(places)


@pytest.mark.parametrize(("place", "name"), MOVED)
def test_a_moved_name_works_and_the_warning_names_its_place(place: str, name: str) -> None:
    with pytest.warns(DeprecationWarning, match="has moved") as caught:
        value = getattr(untyped, name)
    assert value is getattr(sys.modules[place], name)
    assert [str(each.message) for each in caught] == [f"rota.{name} has moved to {place}.{name}"]
    assert caught[0].filename == __file__


def test_importing_a_moved_name_warns_at_the_import() -> None:
    program = "import warnings; warnings.simplefilter('error'); from rota import JoinGroup"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert 'File "<string>", line 1' in done.stderr
    assert "rota.JoinGroup has moved to rota.protocol.JoinGroup" in done.stderr


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'rota' has no attribute 'JoinGruop'"):
        _ = untyped.JoinGruop


def test_type_checkers_know_the_lazy_names_and_no_others() -> None:
    """mypy checks this test: it reports a comment that excuses nothing, and a type that is Any."""
    with pytest.raises(AttributeError):
        rota.JoinGruop  # type: ignore[attr-defined]  # noqa: B018  the attribute is what is tested
    authority: rota.Authority = rota.Authority()
    assert_type(authority.tls(), rota.Tls)
    assert_type(rota.Member("g"), rota.member.Member)


def test_a_value_unpickles_without_a_warning() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        asked = rota.protocol.Heartbeat("g", "m", 1)
        assert type(asked).__module__ == "rota.protocol"
        assert type(rota.protocol.ErrorCode.NONE).__module__ == "rota.protocol"
        assert pickle.loads(pickle.dumps(rota.protocol.ErrorCode.NONE)) is rota.protocol.ErrorCode.NONE


def test_every_fault_is_under_faults_and_still_a_method_of_the_server() -> None:
    with rota.Server() as server:
        names = [name for name in vars(type(server.faults)) if not name.startswith("_")]
        assert len(names) == 25
        for name in names:
            assert getattr(type(server), name) is getattr(type(server.faults), name)
        server.hold_loads()
        assert server.faults.release_loads() == 0
        server.faults.hold_appends()
        assert server.release_appends() == 0
