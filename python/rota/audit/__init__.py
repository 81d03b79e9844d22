"""The audit: what logs say that groups did, checked against the invariants (docs/audit.md).

`rota.audit.logs` and `rota.audit.rows` need pyarrow only; the rest needs pyspark and Java 17.
"""
