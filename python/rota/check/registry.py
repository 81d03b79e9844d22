"""The engines there are, in the order in which they run: the quick ones first."""

from __future__ import annotations

from rota.check.engines import Engine

ENGINES = (
    Engine(
        "differential",
        "Hold the coordinator to rota.model, step by step.",
        "rota.check.differential.engine",
    ),
    Engine(
        "exploration",
        "Visit every state that the coordinator can reach within small bounds, and check each and every step.",
        "rota.check.exploration",
    ),
    Engine(
        "simulation",
        "Run worlds of real coordinators and members under faults, and look whether they keep what they promise.",
        "rota.check.simulation",
    ),
    Engine(
        "proofs",
        "Prove the invariants of the classic protocol, of the timing wheel and of the assignors, without bounds.",
        "rota.check.proofs",
    ),
)
