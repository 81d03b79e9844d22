"""Sessions that Hypothesis makes up, at two brokers in lockstep; what differs is shrunk."""

from __future__ import annotations

import shutil

import pytest

import rota
from tests.conform import fuzz
from tests.conform.fuzz import AT_ONCE
from tests.conform.systems import kafka

SEARCHED_S = 20.0


def test_a_difference_is_shrunk_to_the_shortest_session_that_shows_it() -> None:
    with rota.Server(settings=AT_ONCE) as one, rota.Server(settings={**AT_ONCE, "group.max.size": "1"}) as other:
        ours, theirs = fuzz.reached(one.bootstrap_servers), fuzz.reached(other.bootstrap_servers)
        with pytest.raises(fuzz.DiffersError) as differs:
            fuzz.search(theirs, ours, within_s=60.0)
    told = str(differs.value)
    session, _, lines = told.partition("\nat ")
    assert 2 <= len(session.splitlines()) <= 4, told
    assert "GROUP_MAX_SIZE_REACHED" in lines


@pytest.mark.java
@pytest.mark.slow
@pytest.mark.xdist_group("kafka-broker")
def test_rota_and_kafka_answer_the_same_sessions_alike() -> None:
    if absent := [tool for tool in ("java", "mvn") if shutil.which(tool) is None]:
        pytest.skip(f"needs {', '.join(absent)}")
    with kafka("broker")(AT_ONCE) as address, rota.Server(settings=AT_ONCE) as server:
        theirs, ours = fuzz.reached(address), fuzz.reached(server.bootstrap_servers)
        played = fuzz.search(theirs, ours, SEARCHED_S)
        assert [*theirs.clean(), *ours.clean()] == []
    assert played >= 10
