//! A snapshot with a changed byte is refused, or is a coordinator that goes on: it never panics.
//!
//! `ROTA_DAMAGE=all` tries every other value of every byte, `many` those that are likeliest to hurt; by default two.

#[expect(dead_code, reason = "the walks use the rest of the world")]
mod walk;

use std::panic::{AssertUnwindSafe, catch_unwind};

use rota_core::{
    Answer, AppendId, Config, Coordinator, Entropy, Now, Record, Request, SelfCheck, Sink, Ticket,
    request::{JoinGroup, Protocol},
};
use walk::World;

/// Events that a coordinator has to survive.
const EVENTS: usize = 50;

fn changes() -> Vec<u8> {
    match std::env::var("ROTA_DAMAGE").as_deref() {
        Ok("all") => (1..=255).collect(),
        Ok("many") => vec![1, 2, 3, 4, 5, 8, 16, 32, 64, 128, 252, 254, 255],
        _ => vec![1, 128],
    }
}

/// A world whose snapshot has members, pending ids, parked requests and appends in flight.
fn mid_walk(seed: u64) -> World {
    let mut world = World::new(seed);
    for _ in 0..200 {
        world.step();
    }
    while world.coordinator.snapshot().len() < 1_200 {
        world.step();
    }
    world
}

#[test]
fn one_changed_byte_is_refused_or_survived() {
    let (mut refused, mut survived, mut panics) = (0, 0, Vec::new());
    for seed in 0..4 {
        let original = mid_walk(seed);
        let bytes = original.coordinator.snapshot();
        for (at, change) in (0..bytes.len()).flat_map(|at| changes().into_iter().map(move |change| (at, change))) {
            let mut damaged = bytes.clone();
            damaged[at] = damaged[at].wrapping_add(change);
            let Ok(coordinator) = Coordinator::restore(&damaged) else {
                refused += 1;
                continue;
            };
            let mut world = original.clone();
            world.coordinator = coordinator;
            world.coordinator.check_itself(SelfCheck::Never);
            world.is_checked = false;
            let walk = AssertUnwindSafe(|| (0..EVENTS).for_each(|_| world.step()));
            match catch_unwind(walk) {
                Ok(()) => survived += 1,
                Err(panic) => {
                    let text = panic.downcast_ref::<String>().cloned();
                    let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
                    panics.push(format!("seed {seed}, byte {at} + {change}: {}", text.unwrap_or_default()));
                }
            }
        }
    }
    assert!(panics.is_empty(), "{} let in and not survived:\n{}", panics.len(), panics.join("\n"));
    assert!(refused > 0 && survived > 0, "{refused} refused, {survived} survived");
}

/// Takes no notice of effects.
struct Nowhere;

impl Sink for Nowhere {
    fn answer(&mut self, _: Ticket, _: Answer<'_>) {}
    fn append(&mut self, _: AppendId, _: &[Record]) {}
}

/// A group that so far is one id that was handed out, and a first record on its way to the log.
fn just_created() -> Coordinator {
    let mut coordinator = Coordinator::new(Config::default(), 0, 0);
    let now = Now { mono_ms: 0, wall_ms: 0 };
    coordinator.loaded(now, &mut Nowhere);
    let join = JoinGroup {
        version: 4,
        group_id: Some("h"),
        member_id: "",
        instance_id: None,
        client_id: "c",
        client_host: "/127.0.0.1",
        session_timeout_ms: 10_000,
        rebalance_timeout_ms: 10_000,
        protocol_type: "consumer",
        protocols: &[Protocol { name: "range", metadata: &[] }],
        reason: None,
    };
    coordinator.submit(now, Ticket(0), Entropy(0), Request::JoinGroup(join), &mut Nowhere);
    coordinator
}

#[test]
fn a_changed_byte_in_a_group_whose_first_record_is_in_flight_is_refused_or_survived() {
    let bytes = just_created().snapshot();
    for (at, change) in (0..bytes.len()).flat_map(|at| (1..=255).map(move |change| (at, change))) {
        let mut damaged = bytes.clone();
        damaged[at] = damaged[at].wrapping_add(change);
        let Ok(mut coordinator) = Coordinator::restore(&damaged) else { continue };
        coordinator.check_itself(SelfCheck::Never);
        let later = Now { mono_ms: 1_000_000, wall_ms: 0 };
        let life = AssertUnwindSafe(|| {
            coordinator.appended(AppendId(0), Ok(0), later, &mut Nowhere);
            coordinator.advance(later, &mut Nowhere);
            coordinator.unload(later, &mut Nowhere);
        });
        assert!(catch_unwind(life).is_ok(), "byte {at} + {change} was let in and not survived");
    }
}

#[test]
fn a_refusal_says_what_is_wrong() {
    let refusal = |bytes: &[u8]| Coordinator::restore(bytes).expect_err("no snapshot").to_string();
    assert!(refusal(b"").starts_with("not a snapshot of this version: "), "{}", refusal(b""));
    let followed = [mid_walk(0).coordinator.snapshot(), vec![0]].concat();
    assert_eq!(refusal(&followed), "not a snapshot of this version: 1 bytes follow it");
    let other: Vec<u8> = std::iter::once(0).chain(followed.into_iter().skip(1)).collect();
    assert_eq!(
        refusal(&other),
        "the snapshot has format 0, and this release of rota knows format 8; restore it with the release that wrote it, or \
         load the coordinator from its log"
    );
}
