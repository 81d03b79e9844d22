"""The audit: what logs say that groups did, checked against the invariants (docs/audit.md).

`rota audit` needs nothing else; `rows` needs pyarrow, tables, reports and `--follow` need pyspark and Java 17.
"""

from rota.audit.decoding import decode, read, register

__all__ = ["decode", "read", "register"]
