"""The protocols that the random walk can take, and both together: how its runs begin, and how steps are made."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rota.check.differential import consumer_generators, conversion_generators, generators, transaction_generators
from rota.check.differential.cells import CONVERTED, SOMETIMES
from rota.check.differential.lockstep import Lockstep
from rota.check.differential.steps import Step
from rota.check.differential.transaction_cells import SITUATIONS
from rota.check.differential.transaction_lockstep import LEVEL, TransactionLockstep


@dataclass(frozen=True)
class Walk:
    """`makers` are methods of the class `maker`, as often as each should come; `opening` are the first steps,
    `situations` what a walk of `seen_within` steps or more has to see.
    """

    name: str
    maker: Callable[..., Any]
    makers: Mapping[Callable[[Any], Step], int]
    configs: Sequence[Mapping[str, int | str]]
    opening: tuple[Step, ...] = ()
    situations: Collection[str] = ()
    seen_within: int = 20_000


CLASSIC = Walk("classic", generators.Maker, generators.MAKERS, generators.CONFIGS)
CONSUMER = Walk(
    "consumer",
    consumer_generators.ConsumerMaker,
    consumer_generators.MAKERS,
    consumer_generators.CONFIGS,
    consumer_generators.OPENING,
    SOMETIMES,
)
CONVERSION = Walk(
    "conversion",
    conversion_generators.ConversionMaker,
    conversion_generators.MAKERS,
    conversion_generators.CONFIGS,
    conversion_generators.OPENING,
    CONVERTED,
    seen_within=200_000,
)
TRANSACTIONS = Walk(
    "transactions",
    transaction_generators.TransactionMaker,
    transaction_generators.MAKERS,
    transaction_generators.CONFIGS,
    situations=SITUATIONS,
)
WALKS = {walk.name: walk for walk in (CLASSIC, CONSUMER, CONVERSION, TRANSACTIONS)}


def lockstep_of(config: Mapping[str, int | str], *more: Any) -> Lockstep | TransactionLockstep:
    """The coordinator with these settings and its model."""
    return (TransactionLockstep if LEVEL in config else Lockstep)(config, *more)
