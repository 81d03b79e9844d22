"""The pytest plugin, in test runs of its own: fixtures, settings, the report of a failure, other plugins beside it."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

CONSUMER = """
    import time
    from confluent_kafka import Consumer

    def joined(server, group="billing"):
        server.create_topic("invoices")
        consumer = Consumer({"bootstrap.servers": server.bootstrap_servers, "group.id": group, "client.id": "clerk"})
        consumer.subscribe(["invoices"])
        deadline = time.monotonic() + 30
        while not consumer.assignment():
            assert time.monotonic() < deadline
            consumer.poll(0.05)
        return consumer
"""


#: How a line of the trace begins.
TRACED = r"\d\d:\d\d:\d\d\.\d{3} #\d+ "


def run(pytester: pytest.Pytester, test: str, *arguments: str) -> pytest.RunResult:
    """Runs a file of tests in a process of its own, where rota is a plugin by its entry point."""
    pytester.makepyfile(clerk=CONSUMER)
    pytester.makepyfile(test_it=test)
    return pytester.runpytest_subprocess("-p", "no:cacheprovider", *arguments)


def test_each_test_has_a_server_of_its_own_without_topics_and_groups_that_ends_with_it(
    pytester: pytest.Pytester,
) -> None:
    result = run(
        pytester,
        """
        import pytest, rota
        from clerk import joined

        seen = []

        @pytest.mark.parametrize("turn", [1, 2])
        def test_fresh(rota_server, turn):
            assert rota_server.groups() == []
            joined(rota_server).close()
            assert rota_server.groups() == ["billing"]
            assert rota_server.clock is None
            seen.append(rota_server)

        def test_both_have_ended():
            for server in seen:
                with pytest.raises(rota.ServerError):
                    server.groups()
        """,
    )
    result.assert_outcomes(passed=3)


def test_a_server_runs_on_the_clock_that_the_test_uses_in_whatever_order_and_through_other_fixtures(
    pytester: pytest.Pytester,
) -> None:
    result = run(
        pytester,
        """
        import pytest

        def test_clock_last(rota_server, rota_clock):
            assert rota_server.clock is rota_clock
            rota_clock.advance(5)

        @pytest.fixture
        def later(rota_clock):
            return rota_clock

        def test_clock_of_another_fixture(rota_server, later):
            assert rota_server.clock is later
        """,
    )
    result.assert_outcomes(passed=2)


def test_a_clock_that_comes_too_late_for_the_server_is_refused(pytester: pytest.Pytester) -> None:
    result = run(
        pytester,
        """
        import pytest

        @pytest.fixture
        def late(request):
            return request.getfixturevalue("rota_clock")

        @pytest.fixture
        def early(request):
            return request.getfixturevalue("rota_clock")

        def test_too_late(rota_server, late):
            pass

        def test_in_time(early, rota_server):
            assert rota_server.clock is early
        """,
    )
    result.assert_outcomes(passed=1, errors=1)
    result.stdout.fnmatch_lines(["rota_server runs on real time already: name rota_clock as a parameter*"])


def test_settings_come_from_the_defaults_the_ini_file_and_markers_the_nearest_last(pytester: pytest.Pytester) -> None:
    pytester.makeini(
        """
        [pytest]
        rota_settings =
            group.max.size=7
            group.min.session.timeout.ms = 100
        """
    )
    result = run(
        pytester,
        """
        import pytest

        pytestmark = pytest.mark.rota(settings={"group.max.size": 8, "offsets.topic.num.partitions": 3})

        def test_module(rota_server):
            settings = rota_server.settings()
            assert settings["group.initial.rebalance.delay.ms"] == "0"
            assert settings["group.min.session.timeout.ms"] == "100"
            assert settings["group.max.size"] == "8"
            assert settings["offsets.topic.num.partitions"] == "3"

        @pytest.mark.rota(settings={"group.max.size": 9}, nodes=2)
        def test_own(rota_server):
            assert list(rota_server.nodes()) == [1, 2]
            settings = rota_server.settings()
            assert settings["group.max.size"] == "9"
            assert settings["offsets.topic.num.partitions"] == "3"
        """,
        "--strict-markers",
    )
    result.assert_outcomes(passed=2)


@pytest.mark.parametrize(
    ("mark", "said"),
    [
        ("pytest.mark.rota(setings={})", "the marker rota has setings: it takes settings={...}, nodes=N and tls=True"),
        (
            "pytest.mark.rota('group.max.size')",
            "the marker rota has 'group.max.size': it takes settings={...}, nodes=N and tls=True",
        ),
        ("pytest.mark.rota(settings={'group.max.sise': 1})", "group.max.sise"),
        (
            "pytest.mark.rota(settings=['group.max.size'])",
            "the marker rota has settings=['group.max.size'], nodes=1: give a",
        ),
        (
            "pytest.mark.rota(nodes='3')",
            "the marker rota has settings={}, nodes='3': give a mapping, and a whole number",
        ),
        ("pytest.mark.rota(nodes=0)", "nodes is 0: give 1 to 1000"),
    ],
)
def test_a_marker_that_cannot_be_is_refused_with_what_it_takes(pytester: pytest.Pytester, mark: str, said: str) -> None:
    result = run(pytester, f"import pytest\n@{mark}\ndef test_it(rota_server):\n    pass\n")
    result.assert_outcomes(errors=1)
    assert said in result.stdout.str()
    assert "During handling of the above exception" not in result.stdout.str()
    assert "pytest_plugin.py" not in result.stdout.str()


def test_a_line_of_the_ini_file_that_cannot_be_is_refused(pytester: pytest.Pytester) -> None:
    pytester.makeini("[pytest]\nrota_settings = group.max.size\n")
    result = run(pytester, "def test_it(rota_server):\n    pass\n")
    result.assert_outcomes(errors=1)
    assert "rota_settings has the line 'group.max.size': expected NAME=VALUE" in result.stdout.str()


def test_a_failure_says_what_every_group_was_doing_and_why_it_rebalanced(pytester: pytest.Pytester) -> None:
    result = run(
        pytester,
        """
        from clerk import joined

        def test_bill(rota_server):
            consumer = joined(rota_server)
            assert False, "the bill is wrong"
        """,
    )
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            "*the bill is wrong*",
            "*rota: groups when the test failed*",
            "group billing: Stable for *, generation 1; last rebalance: clerk-* joined",
            "    generation 0 to 1: clerk-* joined (settled after *)",
        ]
    )


def test_a_failure_shows_the_last_requests_and_answers_if_it_is_told_to(pytester: pytest.Pytester) -> None:
    pytester.makeini("[pytest]\nrota_trace = 4\n")
    result = run(
        pytester,
        """
        from clerk import joined

        def test_bill(rota_server):
            consumer = joined(rota_server)
            consumer.close()
            assert False
        """,
    )
    result.assert_outcomes(failed=1)
    printed = result.stdout.str().split("rota: the last requests and answers")[1].splitlines()
    assert len([line for line in printed if re.match(TRACED, line)]) == 4
    assert any(" -> LeaveGroup " in line for line in printed)


def test_the_lines_that_a_failure_shows_are_those_of_the_trace_with_the_node_and_why_a_connection_was_closed(
    pytester: pytest.Pytester,
) -> None:
    pytester.makeini("[pytest]\nrota_trace = 5000\n")
    result = run(
        pytester,
        """
        import socket, struct
        import pytest

        @pytest.mark.rota(nodes=2)
        def test_no_such_version(rota_server):
            with socket.create_connection((rota_server.host, rota_server.port)) as client:
                request = struct.pack(">hhih", 12, 99, 7, -1)
                client.sendall(struct.pack(">i", len(request)) + request)
                assert client.recv(1) == b"not closed"
        """,
    )
    result.assert_outcomes(failed=1)
    printed = result.stdout.str().split("rota: the last requests and answers")[1]
    assert re.search(r'1#1 -- reason="API key 12 in version 99 is not served"', printed), printed


def test_a_failure_without_groups_or_with_a_stopped_server_says_so(pytester: pytest.Pytester) -> None:
    result = run(
        pytester,
        """
        def test_nobody_came(rota_server):
            assert False

        def test_stopped(rota_server):
            rota_server.stop()
            assert False
        """,
    )
    result.assert_outcomes(failed=2)
    result.stdout.fnmatch_lines(["the server has no groups: *", "nothing can be said: the server has been stopped"])


def test_a_server_that_has_panicked_does_not_pass_for_sound(pytester: pytest.Pytester) -> None:
    result = run(
        pytester,
        """
        import rota

        def test_passes(rota_server, monkeypatch):
            monkeypatch.setattr(rota.Server, "panics", 1)

        def test_has_panicked(monkeypatch, rota_server):
            rota.Server.panics = 1
        """,
    )
    result.assert_outcomes(passed=2, errors=1)
    result.stdout.fnmatch_lines(["*a request has made rota_server panic*"])


def test_a_test_that_passes_or_uses_no_server_is_reported_as_ever(pytester: pytest.Pytester) -> None:
    result = run(
        pytester,
        """
        def test_passes(rota_server):
            pass

        def test_without(request):
            assert False
        """,
        "-rA",
    )
    result.assert_outcomes(passed=1, failed=1)
    assert "rota: groups" not in result.stdout.str()


def test_workers_of_xdist_do_not_meet_and_their_reports_come_through(pytester: pytest.Pytester) -> None:
    result = run(
        pytester,
        """
        import pytest
        from clerk import joined

        @pytest.mark.parametrize("turn", range(6))
        def test_one_group(rota_server, turn):
            joined(rota_server)
            assert rota_server.groups() == ["billing"]
            assert turn != 3
        """,
        "-n",
        "2",
    )
    result.assert_outcomes(passed=5, failed=1)
    result.stdout.fnmatch_lines(["group billing: Stable *"])


def test_a_coroutine_can_use_the_fixtures(pytester: pytest.Pytester) -> None:
    result = run(
        pytester,
        """
        import pytest
        from aiokafka import AIOKafkaConsumer

        @pytest.mark.asyncio
        async def test_it(rota_server, rota_clock):
            rota_server.create_topic("invoices")
            consumer = AIOKafkaConsumer(
                "invoices", bootstrap_servers=rota_server.bootstrap_servers, group_id="billing"
            )
            await consumer.start()
            assert len(consumer.assignment()) == 1
            await consumer.stop()
        """,
    )
    result.assert_outcomes(passed=1)


HEAVY = ["numpy", "rich", "typer", "z3", "hypothesis", "pyspark", "confluent_kafka", "aiokafka", "kafka", "rota.cli"]


def test_nothing_heavy_is_imported_before_a_fixture_is_used(pytester: pytest.Pytester) -> None:
    script = f"import sys, rota.pytest_plugin\nprint([name for name in {HEAVY} if name in sys.modules])"
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, check=True, capture_output=True, text=True, cwd=pytester.path)
    assert done.stdout == "[]\n"
