"""`rota audit --follow`: verdicts while logs grow, told from what is remembered of each group (docs/audit.md).

| module | what it is |
|---|---|
| `growth` | what of the files is new: `spark.readStream.format("rota")` |
| `records` | the promises that a group's records show |
| `answers` | the promises that only a journal shows |
| `partition` | one partition of a log, row after row: requests, appends, incarnations, the replay |
| `passing` | the pass itself, also over whole logs and without Spark |
| `query` | Spark's query over all of that, its checkpoint and its verdicts |

The promises are those of `rota.audit.checks`, told in one pass and with bounded memory.
"""
