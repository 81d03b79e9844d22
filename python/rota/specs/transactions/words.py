"""What the page of proofs says of transactions."""

ASSUMPTIONS = """\
* An epoch stands for producer id and epoch: a new producer id after the last epoch is a greater epoch.
* At an epoch a client speaks one protocol. By the second one it has one transaction at an epoch.
* By the first protocol a client ends its transaction only when it has the answers to all of its data. Without that T3
  is false: data that is late joins the next transaction at the same epoch (the planted bug `late data of the first
  protocol`). A transaction that the coordinator aborts needs no such assumption.
* A batch is stored once: sequence numbers are not part of it.
* Only records of decisions fail. Another owner finds every record that was durable, and may find one that seemed to
  fail.

"""

OPEN = """\
| T5, T6, expiry of ids, deleted topics, the last epoch | liveness, time, arithmetic | explorer of `rust/txn`, model |
"""
