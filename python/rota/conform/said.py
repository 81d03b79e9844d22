"""The answers of a row, step by step."""

from __future__ import annotations

from dataclasses import dataclass

#: A row that could not go on says so in an answer that begins like this.
FAULT = "! "


@dataclass(frozen=True)
class Said:
    """One step of a row and every answer that came by its end."""

    step: str
    answers: tuple[str, ...] = ()

    @property
    def fault(self) -> str:
        """Why the row could not go on here, if it could not."""
        return next((line.removeprefix(FAULT) for line in self.answers if line.startswith(FAULT)), "")


Evidence = list[Said]
