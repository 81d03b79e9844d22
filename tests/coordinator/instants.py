"""Instants and spans worth trying on a wheel of 64 and of 1,024 slots a level."""

from __future__ import annotations

from hypothesis import strategies as st

TIME_END_MS = 2**64 - 1

# Around a slot's and a level's edge, within a few levels, and anywhere.
spans_ms = st.one_of(
    st.integers(0, 3),
    st.integers(60, 70),
    st.integers(0, 5_000),
    st.builds(lambda bit, off: max(0, 2**bit + off), st.integers(0, 63), st.integers(-1, 1)),
)
jumps_ms = st.one_of(
    st.just(1), st.integers(0, 70), st.integers(0, 5_000), st.integers(0, 2**30), st.integers(0, 2**62)
)
# A deadline relative to now: mostly ahead, sometimes in the past, sometimes the end of time.
leads_ms = st.one_of(spans_ms, spans_ms, spans_ms.map(lambda span: -span), st.just(TIME_END_MS))
starts_ms = st.one_of(st.just(0), st.integers(0, 100_000), st.integers(0, TIME_END_MS))


def at(now_ms: int, lead_ms: int) -> int:
    """The instant `lead_ms` from `now_ms`, within the wheel's time."""
    return min(max(now_ms + lead_ms, 0), TIME_END_MS)
