//! Conformance: random sequences of requests have the same answers as in memory, and leave the same content.

use std::collections::BTreeSet;

use rota_contract::sequences::{check_events, sequence};

use crate::{engines::run, etcd::Etcd};

const SEQUENCES: u64 = 40;

#[test]
fn answers_are_those_of_the_store_in_memory() {
    run(|| async {
        let etcd = Etcd::start(1, &[]);
        let mut events = BTreeSet::new();
        for seed in 0..SEQUENCES {
            events.extend(sequence(etcd.engine().await, seed).await);
        }
        check_events(&events);
    });
}
