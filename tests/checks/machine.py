"""The differential machine: Hypothesis chooses the steps and shortens what fails. It holds no logic of the protocol."""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from rota.check.differential import witness
from rota.check.differential.generators import CONFIGS, MAKERS, Maker
from rota.check.differential.lockstep import Difference, Lockstep
from rota.check.differential.steps import Loaded, Step


class Drawn:
    """Choices that Hypothesis makes."""

    def __init__(self) -> None:
        self.data: st.DataObject | None = None

    def index(self, count: int) -> int:
        """A number below `count`; Hypothesis prefers 0."""
        assert self.data is not None
        return self.data.draw(st.integers(0, count - 1)) if count > 1 else 0


class CoreAndModel(RuleBasedStateMachine):
    """One rule for each way of making a step."""

    @initialize(config=st.sampled_from(CONFIGS))
    def start(self, config: dict[str, int]) -> None:
        """An empty log was loaded."""
        self.config = config
        self.lockstep = self.lockstep_with(config)
        self.choices = Drawn()
        self.maker = Maker(self.lockstep, self.choices)
        self.steps: list[Step] = []

    def lockstep_with(self, config: dict[str, int]) -> Lockstep:
        """For a subclass that plants a bug."""
        return Lockstep(config)

    def do(self, step: Step) -> None:
        """Play a step; a difference is reported with the run as a transcript."""
        self.steps.append(step)
        try:
            self.lockstep.play(step)
        except Difference as difference:
            raise Difference(f"{difference}\n\n{witness.transcript(self.config, self.steps)}") from None

    @precondition(lambda self: self.lockstep.state.phase == "Loading")
    @rule()
    def loading_ends(self) -> None:
        """So that a run does not stay in it."""
        self.do(Loaded())


def _rule_of(maker: Callable[[Maker], Step]) -> Callable[..., None]:
    def run(self: CoreAndModel, data: st.DataObject) -> None:
        self.choices.data = data
        self.do(maker(self.maker))

    run.__name__ = maker.__name__
    run.__doc__ = maker.__doc__
    return rule(data=st.data())(run)


for _maker in MAKERS:
    setattr(CoreAndModel, _maker.__name__, _rule_of(_maker))
