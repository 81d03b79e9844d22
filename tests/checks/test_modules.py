"""Modules of a crate import one way. The checkers are in `modules.py`; each one here also meets a planted violation."""

import pytest

from tests.checks import modules

CORE, ENGINE, TXN, SERVER = "rust/core", "rust/engine", "rust/txn", "rust/server"
LOW, HIGH = "//! Low.\n", "//! High.\nuse crate::low::Thing;\n"
ROOT_OF_TWO = "// Lower.\nmod low;\n\n// Higher.\npub mod high;\n\npub use low::Thing;\npub use high::{More, Other};\n"


def planted(**texts: str) -> modules.Graph:
    return modules.graph({"": ROOT_OF_TWO, "low": LOW, "high": HIGH} | texts)


def test_no_modules_of_the_core_import_each_other() -> None:
    imports = modules.graph(modules.sources(CORE))
    assert len(imports) > 40
    assert modules.circles(imports) == []


def test_the_core_imports_from_its_own_layer_and_from_lower_ones() -> None:
    sources = modules.sources(CORE)
    layers = modules.declared_layers(sources[""])
    assert len(layers) == 7
    assert modules.upward_imports(modules.graph(sources), layers) == []


@pytest.mark.parametrize(
    ("crate", "count"), [(ENGINE, 5), (TXN, 4), ("rust/etcd", 10), ("rust/postgres", 10), ("rust/contract", 3)]
)
def test_a_crate_imports_from_its_own_layer_and_from_lower_ones(crate: str, count: int) -> None:
    sources = modules.sources(crate)
    layers = modules.declared_layers(sources[""])
    assert len(layers) == count
    imports = modules.graph(sources)
    assert modules.upward_imports(imports, layers) == []
    assert modules.circles(modules.without_parents(imports)) == []


def test_the_server_imports_from_its_own_layer_and_from_lower_ones() -> None:
    sources = modules.sources(SERVER)
    layers = modules.declared_layers(sources[""])
    assert len(layers) == 11
    assert modules.upward_imports(modules.graph(sources), layers) == []


def test_no_files_of_the_server_import_each_other() -> None:
    imports = modules.graph(modules.sources(SERVER))
    assert len(imports) > 80
    assert modules.circles(modules.without_parents(imports)) == []


@pytest.mark.parametrize(
    ("module", "planted"),
    [
        ("node", "use crate::net::channel::Channel;"),
        ("node::tickets", "use crate::{base::clock::Clock, apis::{self, Handled}};"),
        ("node::tickets", "use crate::{\n    base::clock::Clock,\n    server::Server as Running,\n};"),
        ("base::place", "fn host(client: &crate::client::Client) -> String { client.host() }"),
        ("base::place", "use super::super::topics::Cluster;"),
        ("base", "pub use super::log::data_dir;"),
        ("topics::table", "mod inner {\n    use crate::node::Node;\n}"),
        ("log::data_dir", "use crate::Server;"),
        ("log::data_dir", "use crate::*;"),
    ],
)
def test_a_planted_import_of_a_higher_layer_of_the_server_is_found(module: str, planted: str) -> None:
    sources = modules.sources(SERVER)
    imports = modules.graph(sources | {module: f"{sources[module]}\n{planted}\n"})
    found = modules.upward_imports(imports, modules.declared_layers(sources[""]))
    assert found
    assert all(line.startswith(f"{module} imports ") for line in found)


def test_a_planted_circle_of_two_files_in_a_folder_of_the_server_is_found() -> None:
    sources = modules.sources(SERVER)
    planted = {"client::reply_to": f"{sources['client::reply_to']}\nuse super::reply::Reply;\n"}
    imports = modules.without_parents(modules.graph(sources | planted))
    assert modules.circles(imports) == [["client::fan_out", "client::reply", "client::reply_to"]]


@pytest.mark.parametrize(
    "line",
    [
        "use crate::high::Other;",
        "use crate::{error, high::{Other, More}};",
        "use crate::Other;",
        "use super::high::Other;",
        "pub use crate::high;",
        "use crate::*;",
        "fn f() -> crate::high::Other { g() }",
        "fn f() { crate::Other::new() }",
    ],
)
def test_a_planted_import_upward_is_found_and_makes_a_circle(line: str) -> None:
    imports = planted(low=LOW + line + "\n")
    assert modules.circles(imports) == [["high", "low"]]
    layers = modules.declared_layers(ROOT_OF_TWO)
    assert modules.upward_imports(imports, layers) == ["low imports high from a higher layer"]


@pytest.mark.parametrize(
    "text",
    [
        "// use crate::high::Other;",
        'const WORD: &str = "crate::high::Other";',
        "use std::high::Other;",
        "#[cfg(test)]\nmod tests {\n    use crate::high::Other;\n}",
        "use self::inner::high;",
    ],
)
def test_what_is_no_import_is_left_alone(text: str) -> None:
    imports = planted(low=LOW + text + "\n")
    assert imports == {"low": set(), "high": {"low"}}
    assert modules.circles(imports) == []


def test_a_planted_circle_through_others_and_through_folders_is_found() -> None:
    imports = modules.graph(
        {
            "": "mod a;\nmod b;\nmod c;\n",
            "a": "use crate::b::inner::Thing;\n",
            "b": "pub mod inner;\n",
            "b::inner": "use super::super::c::Other;\n",
            "c": "use crate::a;\n",
        }
    )
    assert imports == {"a": {"b::inner"}, "b": set(), "b::inner": {"c"}, "c": {"a"}}
    assert modules.circles(imports) == [["a", "b::inner", "c"]]


def test_a_module_without_a_layer_or_with_two_is_found() -> None:
    layers = [["low"], ["low"]]
    assert modules.upward_imports(planted(), layers) == ["high is in 0 layers", "low is in 2 layers"]


def test_a_file_may_import_the_module_that_it_lies_in() -> None:
    imports = {"a": {"a::b", "a::c"}, "a::b": {"a"}, "a::c": {"a", "a::d"}, "a::d": {"a::c"}}
    assert modules.circles(modules.without_parents(imports)) == [["a::c", "a::d"]]
    assert modules.without_parents({"ab": {"a"}, "a": {"ab"}}) == {"ab": {"a"}, "a": {"ab"}}
