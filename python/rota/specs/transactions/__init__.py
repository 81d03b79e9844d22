"""Transactions (docs/transactions.md) for any number of producers, transactions, partitions and crashes.

`events` has the coordinator, the clients, the participants and the readers, `properties` T1 to T4 with the invariants
that carry them, `mutants` the planted bugs.

A transactional id has one producer; its epochs are in order, so a new producer id after the last epoch is the same as
a greater epoch. A client speaks one protocol at an epoch. By the first one it does not end a transaction while its data
is on its way: without that the first protocol breaks T3, which is its known hole. Left out: time, sequence numbers,
expiry of ids, topics that are deleted, and records other than decisions that fail.
"""
