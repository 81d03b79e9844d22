"""The soak in small, and that it notices what grows."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness import etcd, postgres
from tests.log.soak import Kind, Sample, Soaked, grown, main, soak

MEMBERS, SECONDS = 40, 2
STEADY = Sample(rss_bytes=100 << 20, descriptors=50, threads=9, slowest_ms=3.0)
DONE = {"joins": 40, "commits": 120}


@pytest.mark.parametrize(
    "kind",
    [
        Kind(follows=False, tls=True),
        Kind(follows=False, tls=False),
        pytest.param(
            Kind(follows=False, tls=True, engine="etcd"),
            marks=pytest.mark.skipif(not etcd.is_installed(), reason="etcd is not installed (Debian: etcd-server)"),
        ),
        pytest.param(
            Kind(follows=False, tls=True, engine="postgresql"),
            marks=pytest.mark.skipif(not postgres.is_installed(), reason="PostgreSQL is not installed"),
        ),
    ],
    ids=["tls", "plain", "etcd", "postgresql"],
)
def test_members_come_and_go_while_partitions_move(tmp_path: Path, kind: Kind) -> None:
    soaked = soak(tmp_path / "data", SECONDS, MEMBERS, kind)
    assert soaked.failed == []
    assert min(soaked.done.values()) > 0, soaked.done
    assert soaked.samples
    assert all(one.rss_bytes > 0 and one.descriptors > 0 and one.threads > 0 for one in soaked.samples)


def test_a_server_that_stays_as_it_is_passes() -> None:
    assert list(grown(DONE, [STEADY] * 30)) == []


@pytest.mark.parametrize(
    ("last", "said"),
    [
        (STEADY._replace(rss_bytes=111 << 20), "memory grows"),
        (STEADY._replace(descriptors=63), "descriptors grow"),
        (STEADY._replace(threads=10), "threads grow"),
        (STEADY._replace(slowest_ms=11.1), "answers get slower"),
    ],
)
def test_what_grows_is_noticed(last: Sample, said: str) -> None:
    assert list(grown(DONE, [STEADY] * 20 + [last] * 10)) == [said]


def test_a_soak_in_which_nothing_was_asked_is_noticed() -> None:
    assert list(grown(DONE | {"commits": 0}, [STEADY] * 30)) == ["nothing was asked: commits"]


def test_a_soak_that_ends_early_is_noticed() -> None:
    assert list(grown(DONE, [STEADY])) == ["1 samples are too few to compare"]


def test_the_figures_are_printed_whatever_fails(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    soaked = Soaked(DONE, [STEADY] * 30, ["--follow ended with 130: interrupted"])
    monkeypatch.setattr("tests.log.soak.soak", lambda *_: soaked)
    monkeypatch.setattr("sys.argv", ["soak"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == "soak: --follow ended with 130: interrupted"
    figures = "RSS 100.0 MiB, 50 descriptors, 9 threads, p99.9 3.0 ms"
    assert f"second third: {figures}\nlast third: {figures}\n" in capsys.readouterr().out
