"""The engines there are, in the order in which they run: the quick ones first."""

from __future__ import annotations

from rota.check.engines import Engine

ENGINES = (
    Engine(
        "differential",
        "Compare the coordinator with rota.model, step by step.",
        "rota.check.differential.engine",
        ("classic", "consumer", "conversion", "transactions"),
    ),
    Engine(
        "exploration",
        "Visit every state that the coordinator can reach within small bounds, and check each and every step.",
        "rota.check.exploration",
    ),
    Engine(
        "simulation",
        "Run simulated worlds of coordinators and members under faults, and check their invariants.",
        "rota.check.simulation",
    ),
    Engine(
        "proofs",
        "Prove the invariants of the protocols, of transactions, the timing wheel and the assignors, without bounds.",
        "rota.check.proofs",
    ),
)
