//! Random sequences of requests have the same answers as in memory, and leave the same content.

use std::{collections::BTreeSet, time::Duration};

use rota_cluster::Engine;
use rota_engine::{Body, HistoryId, PartitionId, Request, Revision, View, requests::Read};

use crate::{answers::Both, generate::Generator};

const STEPS: u32 = 150;
/// The watch shows what was written within this time.
const PATIENCE: Duration = Duration::from_secs(30);

/// What must happen in the sequences, so that none of the answers is compared for lack of it.
const EVENTS: [&str; 39] = [
    "append: other history",
    "append: refused, applied",
    "append: refused, fenced",
    "append: refused, went back",
    "append: written",
    "beat: Alive",
    "beat: Late",
    "beat: Lost",
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

/// Fails if one of the answers did not occur in any sequence.
pub fn check_events(events: &BTreeSet<String>) {
    let missing: Vec<&&str> = EVENTS.iter().filter(|event| !events.contains(**event)).collect();
    assert!(missing.is_empty(), "never happened: {missing:?}");
}

/// The history that an engine shows.
pub async fn history(engine: &impl Engine) -> HistoryId {
    let mut views = engine.views();
    let view = tokio::time::timeout(PATIENCE, views.wait_for(Option::is_some)).await.expect("a view in time");
    view.expect("a watch").as_ref().expect("an image").meta.history
}

/// One sequence on an engine without content. Returns what happened.
pub async fn sequence<E: Engine>(engine: E, seed: u64) -> BTreeSet<String> {
    let history = history(&engine).await;
    let mut both = Both::new(history, engine);
    let mut generator = Generator::new(seed, history);
    for _ in 0..STEPS {
        let store = both.memory.store();
        if generator.random.is(5) {
            let appends = generator.appends(store);
            both.ask_all(&appends).await;
        } else {
            let request = generator.request(store);
            both.ask(&request).await;
        }
        generator.learn(both.memory.store());
    }
    for partition in 0..3 {
        let history = both.memory.store().view.meta.history;
        both.ask(&Request { history, body: Body::Read(Read { partition: PartitionId(partition) }) }).await;
    }
    assert!(shows(&both).await, "the watch does not show {:?}", both.memory.view());
    both.events
}

/// Whether the watch comes to show what the store has.
async fn shows<E: Engine>(both: &Both<E>) -> bool {
    let expected = View { revision: Revision(0), ..both.memory.view() };
    let mut views = both.engine.views();
    let shown = views.wait_for(|view| {
        view.as_ref().is_some_and(|view| View { revision: Revision(0), ..View::clone(view) } == expected)
    });
    tokio::time::timeout(PATIENCE, shown).await.is_ok()
}
