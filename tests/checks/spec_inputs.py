"""Formulas and Rust on many inputs: `python -m tests.checks.spec_inputs 1000000` (`make specs-inputs`)."""

import sys
import time
from collections.abc import Callable

from tests.checks import test_spec_certifier as test_certifier
from tests.checks import test_spec_wheel as test_wheel

SEED = 7
COMPARED: dict[str, tuple[str, Callable[[int, int], int]]] = {
    "timers": ("due", test_wheel.compare),
    "plans": ("accepted", test_certifier.compare),
}


def main(inputs: int) -> None:
    """Compare them; an AssertionError shows the first input on which they differ."""
    for what, (of_these, compare) in COMPARED.items():
        began = time.perf_counter()
        count = compare(inputs, SEED)
        print(f"{inputs:,} {what} compared, {count:,} {of_these}, {time.perf_counter() - began:.0f} s", flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000)
