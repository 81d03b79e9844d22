"""A row: one behaviour that is asked of a broker, and what it needs for that."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rota.conform.broker import Broker, Visit
from rota.conform.said import Evidence, Said

#: An answer that Apache Kafka keeps to itself (docs/departures.md, D1); a broker that gives it gives it at once.
SUPERSEDED = "< NOT_COORDINATOR"
#: What is known of the answers: how many come by the end of each step is then waited for.
Known = Sequence[Said] | None

ANY_DELAY_S = (0.0, 10.0)


@dataclass(frozen=True)
class Row:
    """`perform` plays it. `left_out` says why it cannot be played on brokers, if so."""

    id: str
    says: str
    section: str
    perform: Callable[[Visit, Known], Evidence]
    wait_s: float = 0.0
    #: from and to which initial rebalance delay it means something
    delay_s: tuple[float, float] = ANY_DELAY_S
    #: what else the broker has to be set to
    settings: frozenset[tuple[str, str]] = frozenset()
    needs_topics: bool = False
    left_out: str = ""

    @property
    def page(self) -> str:
        """`docs/protocol.md §5.2`; a section of another page has its name before it."""
        page, _, section = self.section.rpartition(" ")
        return f"docs/{page or 'protocol'}.md §{section}"

    def unfit(self, broker: Broker, longest_s: float) -> str:
        """Why it is not played on this broker; nothing if it is."""
        if self.left_out:
            return self.left_out
        if self.settings != broker.settings:
            needed = " ".join(f"{name}={value}" for name, value in sorted(self.settings))
            return f"needs {needed}" if needed else "needs no other settings than usual"
        if self.needs_topics and not broker.topics:
            return "no topics"
        if self.wait_s > longest_s:
            return f"waits for more than {longest_s:g} s"
        lowest, highest = self.delay_s
        if not highest:
            return "needs an initial rebalance delay of its own"
        if self.delay_s != ANY_DELAY_S and broker.delay_s is None:
            return "no group could be joined"
        if not lowest <= (broker.delay_s or 0.0) <= highest:
            return f"initial rebalance delay not between {lowest:g} and {highest:g} s"
        return ""


def expected(known: Known, index: int) -> int | None:
    """How many answers are known to come by the end of a step."""
    if known is None or index >= len(known):
        return None
    return sum(not (line.endswith(" waits") or SUPERSEDED in line) for line in known[index].answers)
