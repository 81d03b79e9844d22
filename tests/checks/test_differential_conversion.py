"""The core does what the model does where both protocols meet: groups that change between them, and classic members in
consumer groups. `DIFFERENTIAL_EXAMPLES` and `CONVERSION_RUNS` make it longer; `make differential` is the long run.
"""

from __future__ import annotations

import os

import pytest

import rota
from rota.check.differential import recording, volume
from rota.check.differential.cells import CONVERTED, Reached
from rota.check.differential.consumer_bytes import decoded
from rota.check.differential.walks import CONVERSION
from rota.model.consumer.data import Classic
from tests.checks.machine import ConversionCoreAndModel, explored
from tests.checks.planted_consumer import Wrong
from tests.checks.planted_conversion import BUGS

EXAMPLES = int(os.environ.get("DIFFERENTIAL_EXAMPLES", "60")) // 2
RUNS = int(os.environ.get("CONVERSION_RUNS", "360"))
#: Seeds within which every planted bug is found.
SEEDS_OF_A_BUG = 60


def test_core_and_model_agree_wherever_hypothesis_leads_them() -> None:
    explored(ConversionCoreAndModel, 0, EXAMPLES)


def test_core_and_model_agree_on_seeded_runs_which_reach_every_situation() -> None:
    reached = Reached("conversion")
    for seed in range(RUNS):
        _, failure = volume.run(seed, walk=CONVERSION, reached=reached)
        if failure:
            found = volume.shorten(failure)
            pytest.fail(f"seed {seed}: {found.error}\n\n{recording.text(found)}")
    assert reached.unseen == []
    assert set(reached.situations) == set(CONVERTED)


@pytest.mark.parametrize("name", BUGS)
def test_a_planted_bug_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rota.coordinator, "Coordinator", lambda config, **more: Wrong(BUGS[name], config, **more))
    found = (volume.run(seed, walk=CONVERSION)[1] for seed in range(SEEDS_OF_A_BUG))
    assert next(filter(None, found), None) is not None, BUGS[name].says


def test_classic_data_is_read() -> None:
    """docs/consumer-protocol.md §14.1 has these bytes."""
    value = (
        "0000000002410b2f3132372e302e302e3102046f6e65010000ea60000100220100007530020672616e6765140001"
        "0000000100036f6e65ffffffff000000000000"
    )
    member = decoded(bytes.fromhex("0005000367343100016d"), bytes.fromhex(value))
    metadata = bytes.fromhex("00010000000100036f6e65ffffffff00000000")
    assert getattr(member.value, "classic", None) == Classic(30_000, (("range", metadata),))
