"""The prose of docs/generated/proved.md about the newer protocol."""

ASSUMPTIONS = """\
* A client has one request outstanding. A client that sends a request no longer acts on an earlier answer, and its
  requests are handled in the order in which it sends them. Both are needed, see below.
* A request reports exactly what its client still uses, or reports nothing.
* C2 counts a member until it leaves or is fenced: the log has a version of the group without it, or a downgrade made
  its epoch old. A fenced client may go on using its partitions until its next request; it commits nothing under its old
  epoch (C11). A classic member that joins anew under its old member id counts as new from then on.
* The steps of a request are actions of their own, and the log may take some of them. Real batches are whole, so the
  coordinator does less than is allowed here. A crash or refused write happens between requests.
* Loading gives the version that the log has (C13, checked on the model).
* The assignor's plan is disjoint and within subscriptions (C7, checked on the model; range, round-robin and the
  certifier above). Topics are sets of partitions here, and patterns are subscriptions.
* Inside a classic group a whole rebalance is one step, whose assignment is disjoint, durable, and known to every
  member. The classic specification has its parts. A classic group is upgraded when none of its writes is in flight.
  An upgrade in the midst of a rebalance finds the members with what they use: in rota their assignments and their
  reports (departure D21). What is reported besides an assignment is then pending, which is left out here.
  So is a group that is converted before its first generation while it has no members: its epochs are 0.
* A group of classic members only may become classic at any time. The coordinator does so only in two cases: a member of
  a group that was too large is removed, or a static JoinGroup has just replaced the last consumer member.
* C18: the members that hold what others lack go on sending heartbeats. A static member that is away holds its
  partitions until it returns or its session ends.
"""

FALSE = """\
Each statement with its shortest events; `python/rota/specs/consumer/runs.py` has them as runs of the specification,
found by Z3 from the initial state, and `tests/checks/test_spec_consumer.py` plays those without a conversion on the
Python model.

* **"No two members use one partition, whatever is lost, late or restarted" (C2).** False if a request is handled after
  a later one of the same member. A topic has two partitions. m1 sends a join that stays in the network, joins again,
  and gets 0 and 1. m2 joins; its target is 1. The first join of m1 arrives: epoch 0 always passes, and its empty
  report acknowledges everything, so m1 keeps 0. m2's heartbeat gets 1. m1 uses 0 and 1 until its next heartbeat.
  A late heartbeat of the same epoch does the same. No epoch distinguishes the two requests.
* **"A client may act on an answer however late."** False once it has sent another request: m1 joins and gets 0 and
  1, late. m2 joins. m1 joins again and gets 0, and m2 gets 1. The first answer arrives: m1 uses 0 and 1.
* **"Σ |pending| + Σ |target \\ assigned| falls with each heartbeat."** False: the heartbeat that discovers a revocation
  moves partitions from assigned to pending, so the sum rises. With 2 for each partition that a member may use and has
  to give up, it never rises (C18).
* **"A member commits only for partitions that it holds."** False: with its own epoch it commits for any partition
  (docs/consumer-protocol.md §11), so also for one that it lost and another member has. Only older epochs are compared
  with assignment epochs (C11).
* **"One owner across an upgrade, whatever the classic leader assigned" (C1).** False: an upgrade takes over the
  leader's assignment. If the leader gave a partition to two members, two members hold it.
* **"A group becomes classic only when a consumer member goes."** False: with more than `group.max.size` classic members
  it stays a consumer group when the last consumer member goes. It becomes classic when a classic member is removed.
* **"A downgrade may give members their targets" (C2).** False in Kafka 4.4 if a static member replaces the last
  consumer member: classic member A uses 0 and 1, and the static consumer s is to get 1. Before A has given up 1, the
  client of s comes back with the classic protocol. The group is Stable at once with the target as assignment, the
  newcomer's SyncGroup is answered with 1, and A uses 1 until its next request gets ILLEGAL_GENERATION. Recorded from
  Kafka; in rota members have what they held, and the group rebalances (departures D23, D24).
* **"An upgrade keeps what classic members use" (C2).** False in Kafka 4.4 in the midst of a rebalance:
  cooperative members A and B use 0 and 1. C joins, and A and B join again and keep theirs. D joins before the leader's
  plan; this empties all assignments. A consumer joins, the group is converted, and the consumer is granted a partition
  that A or B uses. Recorded from Kafka; in rota a member then holds what it reports (departure D21).
"""

OPEN = """\
| C7, C8 exactly, C13, C15 to C17 | plans, encodings, patterns, time | model |
| C18 in milliseconds, C20 with whole fleets | the ranking bounds heartbeats, not time | model |
| fetches of offsets, descriptions, OffsetDelete in the newer protocol | they change nothing | model |
"""
