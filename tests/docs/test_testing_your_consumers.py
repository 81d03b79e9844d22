"""The report of docs/testing-your-consumers.md is the one that a failed test prints."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

PAGE = (Path(__file__).parents[2] / "docs" / "testing-your-consumers.md").read_text(encoding="utf-8")
PROGRAMS = {
    name: program
    for program, name in re.findall(r"^```python\n(# (\S+)\.py\n.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
}


def test_the_report_that_the_page_shows_is_what_a_failure_prints(pytester: pytest.Pytester) -> None:
    [shown] = re.findall(r"^```text\n(-+ rota.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
    (pytester.path / "polling.py").write_text(PROGRAMS["polling"], encoding="utf-8")
    pytester.makepyfile(
        """
        from confluent_kafka import Consumer
        from polling import poll_until

        def test_ship(rota_server):
            rota_server.create_topic("orders")
            settings = {"bootstrap.servers": rota_server.bootstrap_servers, "group.id": "shipping"}
            worker = Consumer({**settings, "client.id": "worker", "heartbeat.interval.ms": 100})
            worker.subscribe(["orders"])
            poll_until(worker.assignment, worker)
            first = worker.memberid()
            rota_server.expire(first)
            poll_until(lambda: worker.memberid() not in ("", first) and worker.assignment(), worker)
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
