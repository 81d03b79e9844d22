"""The elements of each sort in the finite states in which bugs and witnesses are looked for."""

from __future__ import annotations

SIZES = {"Version": 3, "Partition": 2, "Instance": 2, "Member": 3, "Epoch": 5}
FEW = {"Version": 3, "Partition": 1, "Instance": 1, "Member": 2, "Epoch": 4}
