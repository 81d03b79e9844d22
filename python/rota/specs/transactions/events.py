"""The events of transactions (docs/transactions.md): of the coordinator and its log, clients, participants, readers."""

from __future__ import annotations

from rota.specs.logic import And, If, Implies, Not, Or, Spec, State, Term

RIGID = """
earlier: Epoch Epoch
before: Owner Owner
precedes: Batch Batch           # in the log of a partition
first_epoch: -> Epoch
first_owner: -> Owner
of: Txn -> Id
at: Txn -> Epoch                # of its producer
second: Txn                     # by the second protocol
txn: Batch -> Txn               # as its client means it
part: Batch -> Partition
groups: Partition               # of __consumer_offsets
"""
VARIABLES = """
cur: Id -> Epoch                # the coordinator: epoch of the producer
owner: Id -> Owner              # the ownership of the id's partition
began, open: Txn
added: Txn Partition
flight, written, wants: Txn     # a decision on its way to the log, and in it; whether it commits
to: Txn -> Epoch                # of its markers
logged, logcommits: Txn         # the id's last record is a decision
logto: Txn -> Epoch
decided, commits, done: Txn     # as the coordinator knows
marked: Txn Partition
committed, aborted: Txn         # the client: what it has heard
ending: Txn                     # it sends nothing more
sent, lost: Batch
granted: Batch                  # the participant: its leader has added it
marker: Txn Partition Owner     # on its way
stored, closed, kept: Batch     # kept: closed by a marker that commits
head: Partition Id -> Epoch     # of the producer's last batch or marker
fence: Partition Id -> Owner    # of its last marker
passed: Partition Id Epoch      # markers
seen: Batch                     # by a reader of committed records
shown: Batch                    # offsets that a group sees
"""


def init(s: State) -> None:
    """Nothing has happened."""
    s.clear(
        "began", "open", "added", "flight", "written", "wants", "logged", "logcommits", "decided", "commits", "done"
    )
    s.clear("marked", "committed", "aborted", "ending", "sent", "lost", "granted", "marker", "stored", "closed", "kept")
    s.clear("passed", "seen", "shown")
    epoch, owner = s.first_epoch, s.first_owner
    s.cur, s.head = lambda _: epoch, lambda *_: epoch
    s.owner, s.fence = lambda _: owner, lambda *_: owner


def active(s: State, t: Term) -> Term:
    """Open, or being ended."""
    return Or(s.open(t), And(s.decided(t), Not(s.done(t))))


def settled(s: State, i: Term) -> Term:
    """The id has no transaction now."""
    return s.all("Txn", lambda t: Implies(s.of(t) == i, Not(active(s, t))))


def unfinished(s: State, b: Term) -> Term:
    """In the log of a partition, without a marker."""
    return And(s.stored(b), Not(s.closed(b)))


def outstanding(s: State, b: Term) -> Term:
    """On its way: it may still be stored."""
    return And(s.sent(b), Not(s.stored(b)), Not(s.lost(b)))


def _assign(s: State, name: str, key: Term, value: Term) -> None:
    s.put(name, lambda old, at: If(at == key, value, old))


# ---- the coordinator (§3)


def start(s: State, i: Term, e: Term) -> None:
    """InitProducerId: a new epoch."""
    s.require(settled(s, i), "no transaction")
    s.require(s.earlier(s.cur(i), e), "a greater epoch")
    _assign(s, "cur", i, e)


def begin(s: State, t: Term) -> None:
    """A first participant opens the transaction."""
    s.require(And(Not(s.began(t)), s.at(t) == s.cur(s.of(t))))
    s.require(settled(s, s.of(t)), "no other transaction")
    s.add("began", t)
    s.add("open", t)


def add(s: State, t: Term, p: Term) -> None:
    """A participant is added. The record hides a decision whose append seemed to fail."""
    s.require(And(s.open(t), Not(s.flight(t))))
    s.add("added", t, p)
    s.drop("logged", t)


def end(s: State, t: Term, commit: Term, e: Term) -> None:
    """EndTxn. By the second protocol the epoch rises."""
    s.require(And(s.open(t), Not(s.flight(t))), "open")
    quiet = s.all("Batch", lambda b: Implies(s.txn(b) == t, Not(outstanding(s, b))))
    s.require(Or(s.second(t), quiet), "nothing on its way")
    s.require(Implies(Not(s.second(t)), e == s.cur(s.of(t))))
    s.require(Implies(s.second(t), s.earlier(s.cur(s.of(t)), e)), "the epoch rises")
    s.add("ending", t)
    _decide(s, t, commit, e)


def abort(s: State, t: Term, e: Term) -> None:
    """The time is over, or a new producer comes."""
    s.require(And(s.open(t), Not(s.flight(t))))
    s.require(s.earlier(s.cur(s.of(t)), e), "the epoch rises")
    _decide(s, t, False, e)


def _decide(s: State, t: Term, commit: Term, e: Term) -> None:
    s.add("flight", t)
    s.drop("written", t)
    s.put("wants", lambda old, u: If(u == t, commit, old))
    _assign(s, "to", t, e)


def store(s: State, t: Term) -> None:
    """The log takes the decision."""
    s.require(s.flight(t))
    wants, to = s.wants(t), s.to(t)
    s.add("written", t)
    s.add("logged", t)
    s.put("logcommits", lambda old, u: If(u == t, wants, old))
    _assign(s, "logto", t, to)


def learn(s: State, t: Term) -> None:
    """The coordinator hears that its decision is durable."""
    s.require(s.flight(t))
    s.require(s.written(t), "durable")
    wants, to = s.wants(t), s.to(t)
    _decided(s, t, wants, to)


def _decided(s: State, t: Term, commit: Term, e: Term) -> None:
    s.drop("flight", t)
    s.drop("written", t)
    s.drop("open", t)
    s.add("decided", t)
    s.put("commits", lambda old, u: If(u == t, commit, old))
    _assign(s, "to", t, e)
    _assign(s, "cur", s.of(t), e)


def fail(s: State, t: Term) -> None:
    """The coordinator hears that the append failed. The decision may be in the log."""
    s.require(s.flight(t))
    s.drop("flight", t)
    s.drop("written", t)


def crash(s: State, i: Term, o: Term) -> None:
    """Another owner reads the log, in which the id has no transaction that is being ended."""
    s.require(s.before(s.owner(i), o), "a greater owner")
    s.require(s.all("Txn", lambda t: Implies(And(s.of(t) == i, Not(s.done(t))), Not(s.logged(t)))))
    s.put("open", lambda old, t: Or(old, And(s.of(t) == i, s.decided(t), Not(s.done(t)))))
    s.put("decided", lambda old, t: And(old, Or(s.of(t) != i, s.done(t))))
    _forget(s, i, o)


def recover(s: State, t: Term, o: Term) -> None:
    """Another owner reads the log, and finds the decision of the id's transaction."""
    s.require(s.before(s.owner(s.of(t)), o), "a greater owner")
    s.require(And(s.logged(t), Not(s.done(t))))
    _decided(s, t, s.logcommits(t), s.logto(t))
    _forget(s, s.of(t), o)


def _forget(s: State, i: Term, o: Term) -> None:
    for name in ("flight", "written"):
        s.put(name, lambda old, t: And(old, s.of(t) != i))
    s.put("marked", lambda old, t, _: And(old, Or(s.of(t) != i, s.done(t))))
    _assign(s, "owner", i, o)


def mark(s: State, t: Term, p: Term) -> None:
    """A marker is sent to a participant (§5)."""
    owner = s.owner(s.of(t))
    s.require(s.decided(t), "decided")
    s.require(And(Not(s.done(t)), s.added(t, p), Not(s.marked(t, p)), Not(s.marker(t, p, owner))))
    s.add("marker", t, p, owner)


def complete(s: State, t: Term) -> None:
    """The Complete state."""
    s.require(And(s.decided(t), Not(s.done(t))))
    s.require(s.all("Partition", lambda p: Implies(s.added(t, p), s.marked(t, p))), "every marker")
    s.add("done", t)


def hear(s: State, t: Term, commit: Term) -> None:
    """The client hears the outcome: at once, or again because it repeats its request."""
    s.require(s.decided(t), "decided")
    s.require(s.commits(t) == commit, "the outcome")
    s.put("committed", lambda old, u: Or(old, And(u == t, commit)))
    s.put("aborted", lambda old, u: Or(old, And(u == t, Not(commit))))


# ---- clients and participants (§6, §10, §11)


def send(s: State, b: Term) -> None:
    """A client sends a batch or offsets. By the first protocol it adds the participant before."""
    s.require(And(Not(s.sent(b)), Not(s.ending(s.txn(b)))))
    s.require(Or(s.second(s.txn(b)), s.added(s.txn(b), s.part(b))))
    s.add("sent", b)


def refuse(s: State, b: Term) -> None:
    """The client hears an error: the batch is not stored, and no longer on its way."""
    s.require(outstanding(s, b))
    s.add("lost", b)


def grant(s: State, b: Term, u: Term) -> None:
    """By the second protocol, the coordinator has added the participant to the open transaction of this epoch."""
    s.require(And(outstanding(s, b), s.second(s.txn(b)), s.open(u), s.of(u) == s.of(s.txn(b)), s.added(u, s.part(b))))
    s.require(s.at(s.txn(b)) == s.cur(s.of(u)), "the current epoch")
    s.add("granted", b)


def append_granted(s: State, b: Term) -> None:
    """The leader appends what was granted, maybe much later."""
    s.require(s.granted(b), "granted")
    _store(s, b)


def append_verified(s: State, b: Term, u: Term) -> None:
    """By the first protocol, the leader asks whether the participant is in the open transaction; appends at once."""
    s.require(And(Not(s.second(s.txn(b))), s.of(u) == s.of(s.txn(b))))
    s.require(And(s.open(u), s.added(u, s.part(b)), s.at(s.txn(b)) == s.cur(s.of(u))))
    _store(s, b)


def append_more(s: State, b: Term, c: Term) -> None:
    """The leader does not ask while the producer has an open transaction at this epoch in the partition."""
    same = And(s.part(c) == s.part(b), s.of(s.txn(c)) == s.of(s.txn(b)))
    s.require(And(unfinished(s, c), same))
    s.require(s.at(s.txn(c)) == s.at(s.txn(b)), "the same epoch")
    _store(s, b)


def _store(s: State, b: Term) -> None:
    i, p, e = s.of(s.txn(b)), s.part(b), s.at(s.txn(b))
    s.require(outstanding(s, b))
    s.require(Not(s.earlier(e, s.head(p, i))), "the epoch")
    s.require(s.all("Batch", lambda c: Implies(And(s.stored(c), s.part(c) == p), s.precedes(c, b))))
    s.add("stored", b)
    s.put("head", lambda old, q, j: If(And(q == p, j == i), e, old))


def write(s: State, t: Term, p: Term, o: Term) -> None:
    """A participant writes a marker, which ends the producer's transaction there."""
    i = s.of(t)
    s.require(s.marker(t, p, o))
    s.require(Not(s.before(o, s.fence(p, i))), "the coordinator epoch")
    s.require(Not(s.earlier(s.to(t), s.head(p, i))))

    def ends(b: Term) -> Term:
        return And(unfinished(s, b), s.part(b) == p, s.of(s.txn(b)) == i)

    commits, e, is_owner = s.commits(t), s.to(t), o == s.owner(i)
    s.put("kept", lambda old, b: Or(old, And(ends(b), commits)))
    s.put("shown", lambda old, b: Or(old, And(ends(b), commits, s.groups(p))))
    s.put("closed", lambda old, b: Or(old, ends(b)))
    s.drop("marker", t, p, o)
    s.put("head", lambda old, q, j: If(And(q == p, j == i), e, old))
    s.put("fence", lambda old, q, j: If(And(q == p, j == i), o, old))
    s.add("passed", p, i, e)
    s.put("marked", lambda old, u, q: Or(old, And(u == t, q == p, is_owner)))


def miss(s: State, t: Term, p: Term, o: Term) -> None:
    """A participant cannot write a marker now."""
    s.require(s.marker(t, p, o))
    s.drop("marker", t, p, o)


def fetch(s: State, b: Term) -> None:
    """A reader of committed records gets a batch below the last stable offset that no abort ended (§10.3)."""
    s.require(s.stored(b))
    below = s.all("Batch", lambda c: Implies(And(unfinished(s, c), s.part(c) == s.part(b)), s.precedes(b, c)))
    s.require(below, "the last stable offset")
    s.require(Or(Not(s.closed(b)), s.kept(b)), "the aborted transactions")
    s.add("seen", b)


def add_events(spec: Spec) -> None:
    """All events."""
    of_txn, of_batch = {"t": "Txn"}, {"b": "Batch"}
    spec.act("start", start, i="Id", e="Epoch")
    spec.act("begin", begin, **of_txn)
    spec.act("add", add, **of_txn, p="Partition")
    spec.act("end", end, **of_txn, commit="Bool", e="Epoch")
    spec.act("abort", abort, **of_txn, e="Epoch")
    for name, body in (("store", store), ("learn", learn), ("fail", fail), ("complete", complete)):
        spec.act(name, body, **of_txn)
    spec.act("crash", crash, i="Id", o="Owner")
    spec.act("recover", recover, **of_txn, o="Owner")
    spec.act("mark", mark, **of_txn, p="Partition")
    spec.act("hear", hear, **of_txn, commit="Bool")
    spec.act("send", send, **of_batch)
    spec.act("refuse", refuse, **of_batch)
    spec.act("grant", grant, **of_batch, u="Txn")
    spec.act("append granted", append_granted, **of_batch)
    spec.act("append verified", append_verified, **of_batch, u="Txn")
    spec.act("fetch", fetch, **of_batch)
    spec.act("append more", append_more, **of_batch, c="Batch")
    spec.act("write", write, **of_txn, p="Partition", o="Owner")
    spec.act("miss", miss, **of_txn, p="Partition", o="Owner")
