"""The naive coordinator as a subject: `_rota.Naive`, which has the verbs of `rota.coordinator.Coordinator`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rota import _rota
from rota.transcript.core_subject import CoreSubject
from rota.transcript.subject import Explanation


class NaiveSubject(CoreSubject):
    """One naive coordinator. It does not explain itself, and has no invariants but those that it is compared by."""

    shows = frozenset({"log", "unload"})

    def begin(self, config: Mapping[str, str]) -> Any:
        return _rota.Naive(config)

    def explain(self, _group_id: str) -> Explanation | None:
        return None

    def check_invariants(self) -> None:
        """Nothing here: the core is compared with it state by state."""
