//! Conformance: random sequences of requests have the same answers as in memory, and leave the same content.

use std::{collections::BTreeSet, time::Duration};

use rota_engine::{Body, PartitionId, Request, Revision, View, requests::Read};

use crate::{
    answers::Both,
    engines::{history, run},
    etcd::{Etcd, PATIENCE},
    generate::Generator,
};

const SEQUENCES: u64 = 40;
const STEPS: u32 = 150;

/// What must happen in the sequences, so that none of the answers is compared for lack of it.
const EVENTS: [&str; 38] = [
    "append: other history",
    "append: refused, applied",
    "append: refused, fenced",
    "append: refused, went back",
    "append: written",
    "beat: Alive",
    "beat: Late",
    "beat: Replaced",
    "beat: other history",
    "check: held",
    "check: other history",
    "check: refused",
    "chunk: held",
    "chunk: other history",
    "chunk: refused",
    "claim: lost",
    "claim: other history",
    "claim: owner",
    "head: held",
    "head: other history",
    "head: refused",
    "loss: done",
    "loss: other history",
    "note: held",
    "note: other history",
    "note: refused",
    "read: other history",
    "read: snapshot",
    "read: tail",
    "register: done",
    "register: taken",
    "release: held",
    "release: refused",
    "sweep: held",
    "sweep: refused",
    "trim: held",
    "trim: refused",
    "usage: used",
];

#[test]
fn answers_are_those_of_the_store_in_memory() {
    run(|| async {
        let etcd = Etcd::start(1, &[]);
        let mut events = BTreeSet::new();
        for seed in 0..SEQUENCES {
            events.extend(sequence(&etcd, seed).await);
        }
        let missing: Vec<&&str> = EVENTS.iter().filter(|event| !events.contains(**event)).collect();
        assert!(missing.is_empty(), "never happened: {missing:?}");
    });
}

async fn sequence(etcd: &Etcd, seed: u64) -> BTreeSet<String> {
    let engine = etcd.engine().await;
    let history = history(&engine).await;
    let mut both = Both::new(history, engine);
    let mut generator = Generator::new(seed, history);
    for _ in 0..STEPS {
        let store = both.memory.store();
        if generator.random.is(5) {
            let appends = generator.appends(store);
            both.ask_all(&appends).await;
        } else {
            let request = generator.next(store);
            both.ask(&request).await;
        }
        generator.learn(both.memory.store());
    }
    for partition in 0..3 {
        let history = both.memory.store().view.meta.history;
        both.ask(&Request { history, body: Body::Read(Read { partition: PartitionId(partition) }) }).await;
    }
    assert!(shows(&both, Duration::from_secs(10)).await, "the watch does not show {:?}", both.memory.view());
    both.events
}

/// Whether the watch comes to show what the store has.
async fn shows(both: &Both, within: Duration) -> bool {
    let expected = View { revision: Revision(0), ..both.memory.view() };
    let mut views = both.etcd.views();
    let shown = views.wait_for(|view| {
        view.as_ref().is_some_and(|view| View { revision: Revision(0), ..View::clone(view) } == expected)
    });
    tokio::time::timeout(within.min(PATIENCE), shown).await.is_ok()
}
