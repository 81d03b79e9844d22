"""`rota audit --follow`: verdicts while logs grow, told from what is remembered of each group (docs/audit.md).

| module | what it is |
|---|---|
| `growth` | what of the files is new: `spark.readStream.format("rota")` |
| `advancing` | the next rows of a partition: what is found, and what is remembered |
| `query` | Spark's query over all of that, its checkpoint and its verdicts |

The promises are those of a whole audit, folded by the same code (`rust/promises`) with bounded memory.
"""
