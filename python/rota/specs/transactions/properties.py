"""T1 to T4 (docs/transactions.md §9), and the invariants that carry them through every event."""

from __future__ import annotations

from functools import cache

from rota.specs.logic import And, Iff, Implies, Not, Or, Spec, Term
from rota.specs.properties import Properties, grows
from rota.specs.transactions.events import RIGID, VARIABLES, active, add_events, init, outstanding, unfinished

# Finite states in which bugs are looked for, and in which every event can happen.
SIZES = {"Batch": 2, "Txn": 2, "Id": 1, "Partition": 1, "Epoch": 3, "Owner": 2}
MORE = SIZES | {"Partition": 2, "Owner": 3}


def _add_axioms(spec: Spec) -> None:
    """Orders with a first element. At an epoch an id has one protocol, and by the second one transaction."""
    for sort, order in (("Epoch", "earlier"), ("Owner", "before"), ("Batch", "precedes")):

        def is_order(s: Term, sort: str = sort, order: str = order) -> Term:
            less = getattr(s, order)
            return And(
                s.all(sort, lambda a: Not(less(a, a))),
                s.all(f"{sort} {sort}", lambda a, b: Or(a == b, less(a, b), less(b, a))),
                s.all(f"{sort} {sort} {sort}", lambda a, b, c: Implies(And(less(a, b), less(b, c)), less(a, c))),
            )

        spec.axioms.append(is_order)
    spec.axioms.append(lambda s: s.all("Epoch", lambda e: Not(s.earlier(e, s.first_epoch))))
    spec.axioms.append(lambda s: s.all("Owner", lambda o: Not(s.before(o, s.first_owner))))
    spec.axioms.append(
        lambda s: s.all(
            "Txn Txn",
            lambda t, u: Implies(
                And(s.of(t) == s.of(u), s.at(t) == s.at(u)),
                And(Iff(s.second(t), s.second(u)), Implies(s.second(t), t == u)),
            ),
        )
    )


def _add_promises(spec: Spec) -> None:
    main = Properties(spec, "docs/transactions.md §")
    main.step(
        "T1", "9", "the outcome of a decided transaction never changes", "Txn",
        lambda s, t, _action, x: Implies(s.decided(x), And(t.decided(x), Iff(t.commits(x), s.commits(x)))),
    )  # fmt: skip
    main.invariant(
        "T1 heard", "9", "a client hears the outcome that was decided", "Txn",
        lambda s, t: And(
            Implies(s.committed(t), And(s.decided(t), s.commits(t))),
            Implies(s.aborted(t), And(s.decided(t), Not(s.commits(t)))),
        ),
    )  # fmt: skip
    main.step(
        "T2", "9", "after a marker, a participant accepts no data with a lower epoch", "Batch Epoch",
        lambda s, t, _action, b, e: Implies(
            And(grows(s, t, "stored", b), s.passed(s.part(b), s.of(s.txn(b)), e)), Not(s.earlier(s.at(s.txn(b)), e))
        ),
    )  # fmt: skip
    main.invariant(
        "T2 second", "5", "a marker of the second protocol has a greater epoch than the data", "Txn",
        lambda s, t: Implies(And(s.second(t), Or(s.flight(t), s.decided(t))), s.earlier(s.at(t), s.to(t))),
    )  # fmt: skip
    main.invariant(
        "T3", "9", "a reader of committed records sees no record of an aborted or undecided transaction", "Batch",
        lambda s, b: Implies(s.seen(b), And(s.decided(s.txn(b)), s.commits(s.txn(b)))),
    )  # fmt: skip
    main.invariant(
        "T3 whole", "5", "in a Complete state, every record of the transaction has its marker", "Batch",
        lambda s, b: Implies(And(s.stored(b), s.done(s.txn(b))), s.closed(b)),
    )  # fmt: skip
    main.invariant(
        "T4", "9", "offsets of an aborted or undecided transaction are not visible", "Batch",
        lambda s, b: Implies(s.shown(b), And(s.decided(s.txn(b)), s.commits(s.txn(b)))),
    )  # fmt: skip


def _add_coordinator(spec: Spec) -> None:
    more = Properties(spec).auxiliary
    more("one", "an id has one transaction at a time", "Txn Txn",
         lambda s, t, u: Implies(And(active(s, t), active(s, u), s.of(t) == s.of(u)), t == u))  # fmt: skip
    more("open", "an open transaction has the current epoch, and is not decided", "Txn",
         lambda s, t: Implies(s.open(t), And(s.began(t), Not(s.decided(t)), s.at(t) == s.cur(s.of(t)))))  # fmt: skip
    more("began", "what began is open or decided, at an epoch that was given", "Txn",
         lambda s, t: And(Implies(s.began(t), And(Or(s.open(t), s.decided(t)),
                                                  Not(s.earlier(s.cur(s.of(t)), s.at(t))))),
                          Implies(Or(s.decided(t), s.open(t)), s.began(t)),
                          Implies(s.done(t), s.decided(t))))  # fmt: skip
    more("added", "participants are those of transactions that began", "Txn Partition",
         lambda s, t, p: Implies(s.added(t, p), s.began(t)))  # fmt: skip
    more("flight", "an open transaction is decided once, and the log has what was written", "Txn",
         lambda s, t: And(Implies(s.flight(t), And(s.open(t), Not(s.earlier(s.to(t), s.at(t))))),
                          Implies(s.written(t), And(s.flight(t), s.logged(t), s.logto(t) == s.to(t),
                                                    Iff(s.logcommits(t), s.wants(t))))))  # fmt: skip
    more("log", "the log has the decision of every transaction that is being ended", "Txn",
         lambda s, t: And(Implies(And(s.decided(t), Not(s.done(t))),
                                  And(s.logged(t), s.logto(t) == s.to(t), Iff(s.logcommits(t), s.commits(t)))),
                          Implies(s.logged(t), And(s.began(t), Not(s.earlier(s.logto(t), s.at(t)))))))  # fmt: skip
    more("log second", "a decision of the second protocol in the log has a greater epoch", "Txn",
         lambda s, t: Implies(And(s.logged(t), s.second(t)), s.earlier(s.at(t), s.logto(t))))  # fmt: skip
    more("decided", "while a transaction is being ended, its markers have the current epoch", "Txn",
         lambda s, t: Implies(s.decided(t), And(Not(s.earlier(s.cur(s.of(t)), s.to(t))),
                                                Not(s.earlier(s.to(t), s.at(t))),
                                                Or(s.done(t), s.to(t) == s.cur(s.of(t))))))  # fmt: skip
    more("quiet", "nothing is on its way when a transaction ends without a greater epoch", "Txn Batch",
         lambda s, t, b: And(*(Implies(And(of, epoch == s.at(t), s.txn(b) == t),
                                       And(s.ending(t), Not(outstanding(s, b))))
                               for of, epoch in ((Or(s.flight(t), s.decided(t)), s.to(t)),
                                                 (s.logged(t), s.logto(t))))))  # fmt: skip


def _add_participants(spec: Spec) -> None:
    more = Properties(spec).auxiliary
    more("sent", "by the first protocol, participants are added before data is sent", "Batch",
         lambda s, b: Implies(And(s.sent(b), Not(s.second(s.txn(b)))), s.added(s.txn(b), s.part(b))))  # fmt: skip
    more("granted", "a leader gets leave for the batch's own transaction", "Batch",
         lambda s, b: Implies(s.granted(b), And(s.second(s.txn(b)), s.added(s.txn(b), s.part(b)))))  # fmt: skip
    more("unfinished", "data without a marker belongs to a transaction that is open or being ended", "Batch",
         lambda s, b: Implies(unfinished(s, b), And(active(s, s.txn(b)), s.added(s.txn(b), s.part(b)),
                                                    Not(s.marked(s.txn(b), s.part(b))))))  # fmt: skip
    more("closed", "a marker ends stored data of its own transaction, with its outcome", "Batch",
         lambda s, b: And(Implies(s.closed(b), And(s.stored(b), s.decided(s.txn(b)),
                                                   Iff(s.kept(b), s.commits(s.txn(b))))),
                          Implies(s.kept(b), s.closed(b))))  # fmt: skip
    more("passed", "a partition has at least the epochs of its markers", "Partition Id Epoch",
         lambda s, p, i, e: Implies(s.passed(p, i, e), Not(s.earlier(s.head(p, i), e))))  # fmt: skip
    more("marked", "a participant with its marker has its epoch", "Txn Partition",
         lambda s, t, p: Implies(s.marked(t, p), And(s.decided(t), s.added(t, p),
                                                     Not(s.earlier(s.head(p, s.of(t)), s.to(t))))))  # fmt: skip
    more("whole", "in a Complete state every participant has its marker", "Txn Partition",
         lambda s, t, p: Implies(And(s.done(t), s.added(t, p)), s.marked(t, p)))  # fmt: skip
    more("markers", "markers on their way are of decided transactions and of owners so far", "Txn Partition Owner",
         lambda s, t, p, o: Implies(s.marker(t, p, o), And(s.decided(t), s.added(t, p),
                                                           Not(s.before(s.owner(s.of(t)), o)))))  # fmt: skip
    more("fences", "a participant with its marker refuses the markers of owners before", "Txn Partition Owner",
         lambda s, t, p, o: Implies(And(s.marked(t, p), s.marker(t, p, o)),
                                    s.before(o, s.fence(p, s.of(t)))))  # fmt: skip


@cache
def transactions() -> Spec:
    """The specification."""
    spec = Spec("transactions", ["Batch", "Txn", "Id", "Partition", "Epoch", "Owner"])
    spec.symbols(True, RIGID)
    spec.symbols(False, VARIABLES)
    spec.init = init
    _add_axioms(spec)
    add_events(spec)
    _add_promises(spec)
    _add_coordinator(spec)
    _add_participants(spec)
    return spec
