"""Why a group is where it is, in plain words (docs/why.md).

`why(facts)` makes the sentence of plain values (`rota.why.facts`): those of `/groups/{id}`, or of a log that is read
afterwards. `str()` of what the coordinator explains is made here, too.
"""

from rota.why.explained import (
    group_facts,
    of_departure,
    of_explanation,
    of_rebalance,
    of_wait,
    rebalance_facts,
    wait_facts,
)
from rota.why.sentence import Why, why

__all__ = [
    "Why",
    "group_facts",
    "of_departure",
    "of_explanation",
    "of_rebalance",
    "of_wait",
    "rebalance_facts",
    "wait_facts",
    "why",
]
