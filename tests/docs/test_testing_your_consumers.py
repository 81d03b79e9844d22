"""The report of docs/testing-your-consumers.md is the one that a failed test prints."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

PAGE = (Path(__file__).parents[2] / "docs" / "testing-your-consumers.md").read_text(encoding="utf-8")


def test_the_report_that_the_page_shows_is_what_a_failure_prints(pytester: pytest.Pytester) -> None:
    [shown] = re.findall(r"^```text\n(-+ rota.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
    pytester.makepyfile(
        """
        from confluent_kafka import Consumer

        def test_ship(rota_server):
            rota_server.create_topic("orders")
            settings = {"bootstrap.servers": rota_server.bootstrap_servers, "group.id": "shipping"}
            worker = Consumer({**settings, "client.id": "worker", "heartbeat.interval.ms": 100})
            worker.subscribe(["orders"])
            rota_server.wait_until_stable("shipping", members=1)
            while not worker.assignment():
                worker.poll(0.05)
            [first] = rota_server.members("shipping")
            rota_server.expire(first)
            rota_server.wait_until_stable("shipping", members=1, poll=lambda: worker.poll(0.05))
            while not worker.assignment():
                worker.poll(0.05)
            assert False
        """
    )
    result = pytester.runpytest_subprocess("-p", "no:cacheprovider")
    result.assert_outcomes(failed=1)
    printed = result.stdout.str()
    assert shown.splitlines()[0].strip("- ") in printed
    for line in shown.splitlines()[1:]:
        pattern = re.sub(r"\d+\\\.\d\\ s", r"\\d+\\.\\d\\ s", re.escape(line))
        pattern = re.sub(r"[0-9a-f]{8}…", "[0-9a-f]{8}…", pattern)
        assert re.search(rf"^{pattern}$", printed, re.MULTILINE), f"{line}\n{printed}"
