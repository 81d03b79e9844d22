"""The differential machines: Hypothesis chooses the steps and shortens what fails. They hold no logic of a protocol."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule, run_state_machine_as_test

from rota.check.differential import recording, witness
from rota.check.differential.lockstep import Difference, Lockstep
from rota.check.differential.steps import Loaded, Step
from rota.check.differential.transaction_lockstep import TransactionLockstep
from rota.check.differential.volume import Failure
from rota.check.differential.walks import CLASSIC, CONSUMER, CONVERSION, TRANSACTIONS, Walk, lockstep_of


class Drawn:
    """Choices that Hypothesis makes."""

    def __init__(self) -> None:
        self.data: st.DataObject | None = None

    def index(self, count: int) -> int:
        """A number below `count`; Hypothesis prefers 0."""
        assert self.data is not None
        return self.data.draw(st.integers(0, count - 1)) if count > 1 else 0


class Machine(RuleBasedStateMachine):
    """Core and model, with one rule for each way of making a step of the walk."""

    walk: Walk

    @initialize(data=st.data())
    def start(self, data: st.DataObject) -> None:
        """An empty log was loaded."""
        self.config = data.draw(st.sampled_from(self.walk.configs))
        self.lockstep = self.lockstep_with(self.config)
        self.choices = Drawn()
        self.maker = self.walk.maker(self.lockstep, self.choices)
        self.steps: list[Step] = []
        for step in self.walk.opening:
            self.do(step)

    def lockstep_with(self, config: Mapping[str, int | str]) -> Lockstep | TransactionLockstep:
        """For a subclass that plants a bug."""
        return lockstep_of(config)

    def do(self, step: Step) -> None:
        """Play a step; a difference is reported with the run."""
        self.steps.append(step)
        try:
            self.lockstep.play(step)
        except Difference as difference:
            failure = Failure(self.config, self.steps, str(difference))
            shown = recording.text(failure) if failure.is_recorded else witness.transcript(self.config, self.steps)
            raise Difference(f"{difference}\n\n{shown}") from None

    @precondition(lambda self: self.lockstep.state.phase == "Loading")
    @rule()
    def loading_ends(self) -> None:
        """So that a run does not stay in it."""
        self.do(Loaded())


def _rule_of(maker: Callable[[Any], Step]) -> Callable[..., None]:
    def run(self: Machine, data: st.DataObject) -> None:
        self.choices.data = data
        self.do(maker(self.maker))

    run.__name__ = maker.__name__
    run.__doc__ = maker.__doc__
    return rule(data=st.data())(run)


class CoreAndModel(Machine):
    """The classic protocol."""

    walk = CLASSIC


class ConsumerCoreAndModel(Machine):
    """The newer protocol."""

    walk = CONSUMER


class ConversionCoreAndModel(Machine):
    """Both protocols, and groups that change between them."""

    walk = CONVERSION


class TransactionCoreAndModel(Machine):
    """The coordinator of transactions, by both protocols."""

    walk = TRANSACTIONS


def explored(machine: type[Machine], part: int, examples: int) -> None:
    """Let Hypothesis look for a difference; the parts have runs of their own."""
    run_state_machine_as_test(
        type(f"{machine.__name__}{part}", (machine,), {}),
        settings=settings(
            max_examples=examples,
            stateful_step_count=40,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )


for _machine in (CoreAndModel, ConsumerCoreAndModel, ConversionCoreAndModel, TransactionCoreAndModel):
    for _maker in _machine.walk.makers:
        setattr(_machine, _maker.__name__, _rule_of(_maker))
