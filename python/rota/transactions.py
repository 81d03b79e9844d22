"""The coordinator of transactions of one partition of `__transaction_state` as a state machine in your own time.

`TransactionCoordinator` reads no clock and opens no file. It takes requests, results of appends and markers, and wall
times; it returns answers, records to append and markers to write. docs/transactions.md has the rules.
"""

from rota._rota import (
    GivenUp,
    Transaction,
    TransactionAnswer,
    TransactionAppend,
    TransactionCoordinator,
    TransactionMarker,
)

__all__ = [
    "GivenUp",
    "Transaction",
    "TransactionAnswer",
    "TransactionAppend",
    "TransactionCoordinator",
    "TransactionMarker",
]
