"""The model, which is slow on purpose, beside the coordinator: `make bench`."""

from typing import Any

from benches.crowd import Crowd
from rota import model

MEMBERS = 100


def settled() -> tuple[model.State, list[str]]:
    """A group of a hundred, replayed."""
    names = [f"member-{at:02}" for at in range(MEMBERS)]
    members = tuple(
        model.MemberValue(name, None, "consumer-1", "/127.0.0.1", 60_000, 45_000, b"topics", b"plan") for name in names
    )
    value = model.GroupValue("consumer", 1, "range", names[0], 0, members)
    state, _ = model.step(model.State(), 0, model.Replay(model.GroupRecord("group", value)))
    state, _ = model.step(state, 0, model.Loaded())
    return state, names


def test_a_heartbeat_of_the_model(benchmark: Any) -> None:
    state, names = settled()
    beat = model.Submit(1, model.Heartbeat("group", names[50], 1), uuid="")
    _, effects = benchmark(model.step, state, 1, beat)
    assert [effect.error for effect in effects] == ["NONE"]


def test_a_join_of_a_hundred_by_the_coordinator_to_compare(benchmark: Any) -> None:
    crowd = Crowd(100)
    numbers = iter(range(1_000_000))
    answers = benchmark(lambda: crowd.join(f"group-{next(numbers)}", MEMBERS))
    assert len(answers) == MEMBERS


def test_a_join_of_a_hundred_by_the_model(benchmark: Any) -> None:
    begun, _ = model.step(model.State(model.Config(group_initial_rebalance_delay_ms=0)), 0, model.Loaded())

    def join() -> list[Any]:
        state, joined = begun, []
        for at in range(MEMBERS):
            request = model.JoinGroup("group", "", (("range", b""),), version=3)
            state, _ = model.step(state, 0, model.Submit(at, request, uuid=f"{at:036}"))
        # The record of the new group is durable; then as `Crowd.join` does it.
        for event in (model.Appended(0), model.Advance(), model.Advance()):
            state, effects = model.step(state, 0, event)
            joined += [effect for effect in effects if isinstance(effect, model.JoinAnswer)]
        return joined

    assert len(benchmark.pedantic(join, rounds=3)) == MEMBERS
