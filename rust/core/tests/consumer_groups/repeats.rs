//! A heartbeat that is handled by its receipt leaves what the same request would have left, in any state of its group.

use rota_core::{
    Answer, AppendId, Config, Coordinator, Entropy, ErrorCode, Now, Receipt, Record, Request, Sink, Ticket,
    consumer_group::config::GroupSettings, request::ConsumerGroupHeartbeat,
};

use crate::{
    classic::{classic_only, heartbeat},
    scene::{Beat, Scene, beat, join, join_by, settings},
};

const MEMBERS: [&str; 4] = ["m0", "m1", "m2", "m3"];
const STEPS: usize = 1_200;
/// A group compares its topics again after this time.
const REFRESH_MS: u64 = i32::MAX as u64;

/// The answer of one request as text, and whether it wrote.
#[derive(Default)]
struct Seen {
    answer: String,
    appends: usize,
    receipt: Option<Receipt>,
}

impl Sink for Seen {
    fn answer(&mut self, _: Ticket, answer: Answer<'_>) {
        self.answer = format!("{answer:?}");
    }

    fn receipt(&mut self, _: Ticket, receipt: Receipt) {
        self.receipt = Some(receipt);
    }

    fn append(&mut self, _: AppendId, _: &[Record]) {
        self.appends += 1;
    }
}

/// A heartbeat with its receipt and its answer.
struct Kept {
    member: &'static str,
    epoch: i32,
    receipt: Receipt,
    answer: String,
}

fn quiet(member_id: &str, member_epoch: i32) -> Request<'_> {
    Request::ConsumerGroupHeartbeat(ConsumerGroupHeartbeat {
        version: 1,
        group_id: "g",
        member_id,
        member_epoch,
        instance_id: None,
        rack_id: None,
        rebalance_timeout_ms: -1,
        subscribed_topic_names: None,
        subscribed_topic_regex: None,
        server_assignor: None,
        topic_partitions: None,
        client_id: "c",
        client_host: "/127.0.0.1",
    })
}

fn submit(coordinator: &mut Coordinator, now: Now, member: &str, epoch: i32) -> Seen {
    let mut seen = Seen::default();
    coordinator.submit(now, Ticket(u64::MAX), Entropy(0), quiet(member, epoch), &mut seen);
    seen
}

fn state(coordinator: &Coordinator) -> Vec<u8> {
    coordinator.snapshot()
}

/// Numbers without a pattern, the same in each run (splitmix64).
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) % end as u64) as usize
    }
}

/// What a member knows: its epoch, and its partitions as text.
type Known = [(i32, String); 4];

fn take_in(known: &mut (i32, String), answer: &str) {
    let Some((epoch, assigned)) = answer.split_once(' ') else { return };
    let Ok(epoch) = epoch.parse() else { return };
    if let Some(assigned) = assigned.strip_prefix('[') {
        assigned.trim_end_matches(']').clone_into(&mut known.1);
    } else if assigned != "-" {
        // A refusal; its code is no epoch.
        known.0 = 0;
        return;
    }
    known.0 = epoch;
}

fn step(scene: &mut Scene, known: &mut Known, numbers: &mut Numbers) {
    let at = numbers.below(MEMBERS.len());
    let (epoch, owned) = known[at].clone();
    match numbers.below(24) {
        0..=9 if epoch > 0 => {
            let answer = scene.send(&beat(MEMBERS[at], epoch));
            take_in(&mut known[at], &answer);
        }
        10..=13 if epoch > 0 => {
            let answer = scene.send(&beat(MEMBERS[at], epoch).owns(&owned));
            take_in(&mut known[at], &answer);
        }
        0..=13 => {
            let answer = scene.send(&join(MEMBERS[at], &["foo", "bar"]));
            take_in(&mut known[at], &answer);
        }
        14 => {
            scene.send(&beat(MEMBERS[at], -1));
            known[at] = (0, String::new());
        }
        15..=17 => scene.pass(numbers.below(1_500) as u64),
        18 => scene.pass(20_000),
        19 => scene.change_topic("foo", 1, 1 + numbers.below(9) as i32),
        20 => scene.delete_topic("bar"),
        21 => scene.change_topic("bar", 2, 3),
        22 => {
            let session_timeout_ms = [None, Some(50_000), Some(60_000)][numbers.below(3)];
            scene.coordinator.configure_group("g", GroupSettings { session_timeout_ms, ..GroupSettings::default() });
        }
        _ => {
            let ticket = scene.begin(&Beat { names: Some(&["foo"]), ..beat(MEMBERS[at], epoch) });
            if scene.effects.answers.contains_key(&ticket) {
                scene.settle();
            } else {
                scene.fail(ErrorCode::NotEnoughReplicas);
            }
            known[at].0 = 0;
        }
    }
}

/// Keeps the receipts of members that are as their target says.
fn keep(scene: &Scene, known: &Known, kept: &mut Vec<Kept>) {
    for (member, (epoch, _)) in MEMBERS.into_iter().zip(known).filter(|(_, known)| known.0 > 0) {
        let seen = submit(&mut scene.coordinator.clone(), scene.now(), member, *epoch);
        if let Some(receipt) = seen.receipt {
            kept.push(Kept { member, epoch: *epoch, receipt, answer: seen.answer });
        }
    }
    // Old ones are tried for a while, too.
    let excess = kept.len().saturating_sub(24);
    kept.drain(..excess);
}

#[test]
fn a_repeated_heartbeat_leaves_what_the_request_leaves() {
    let (mut repeated, mut refused) = (0, 0);
    for seed in 0..4 {
        let mut scene = Scene::new(settings(if seed % 2 == 0 { 0 } else { 1_000 }));
        let (mut known, mut kept, mut numbers) = (Known::default(), Vec::new(), Numbers(seed));
        for _ in 0..STEPS {
            step(&mut scene, &mut known, &mut numbers);
            for Kept { member, epoch, receipt, answer } in &kept {
                let (mut short, mut long) = (scene.coordinator.clone(), scene.coordinator.clone());
                if !short.repeat_heartbeat(scene.now(), receipt) {
                    refused += 1;
                    continue;
                }
                repeated += 1;
                let seen = submit(&mut long, scene.now(), member, *epoch);
                assert_eq!((&seen.answer, seen.appends), (answer, 0), "seed {seed}");
                assert_eq!(seen.receipt, Some(*receipt), "seed {seed}");
                assert_eq!(state(&short), state(&long), "seed {seed}");
            }
            keep(&scene, &known, &mut kept);
        }
    }
    assert!(repeated > 2_000 && refused > 2_000, "{repeated} repeated, {refused} refused");
}

#[test]
fn a_receipt_ends_with_its_incarnation() {
    let mut scene = Scene::new(settings(0));
    assert!(scene.send(&join("m0", &["foo"])).starts_with("2 "));
    let now = scene.now();
    let receipt = submit(&mut scene.coordinator, now, "m0", 2).receipt.expect("a heartbeat that changes nothing");
    assert!(scene.coordinator.repeat_heartbeat(now, &receipt));
    scene.coordinator.unload(now, &mut Seen::default());
    assert!(!scene.coordinator.repeat_heartbeat(now, &receipt));
}

#[test]
fn a_receipt_ends_when_the_group_compares_its_topics_again() {
    let mut scene = Scene::new(settings(0));
    assert!(scene.send(&join("m0", &["foo"])).starts_with("2 "));
    let now = scene.now();
    let receipt = submit(&mut scene.coordinator, now, "m0", 2).receipt.expect("a heartbeat that changes nothing");
    scene.now_ms += REFRESH_MS - 1;
    let now = scene.now();
    assert!(scene.coordinator.repeat_heartbeat(now, &receipt));
    scene.now_ms += 1;
    let now = scene.now();
    assert!(!scene.coordinator.repeat_heartbeat(now, &receipt));
}

#[test]
fn the_heartbeat_that_compares_topics_again_leaves_no_receipt_and_the_next_one_does() {
    let mut scene = Scene::new(settings(0));
    assert!(scene.send(&join("m0", &["foo"])).starts_with("2 "));
    scene.now_ms += REFRESH_MS;
    let now = scene.now();
    let receipts = [(); 2].map(|()| submit(&mut scene.coordinator, now, "m0", 2).receipt);
    assert_eq!(receipts.map(|receipt| receipt.is_some()), [false, true]);
}

/// Whether the receipt is valid until the group compares its topics at `ends_ms`.
fn ends_at(scene: &mut Scene, receipt: &Receipt, ends_ms: u64) -> bool {
    let repeats = [ends_ms - 1, ends_ms].map(|now_ms| {
        scene.now_ms = now_ms;
        let now = scene.now();
        scene.coordinator.repeat_heartbeat(now, receipt)
    });
    repeats == [true, false]
}

#[test]
fn a_heartbeat_that_repeats_its_topics_does_not_compare_them() {
    let mut scene = Scene::new(settings(0));
    let ends_ms = scene.now_ms + REFRESH_MS;
    assert!(scene.send(&join("m0", &["foo"])).starts_with("2 "));
    scene.now_ms += 1_000;
    assert_eq!(scene.send(&beat("m0", 2).names(&["foo"])), "2 -");
    let now = scene.now();
    let receipt = submit(&mut scene.coordinator, now, "m0", 2).receipt.expect("a heartbeat that changes nothing");
    assert!(ends_at(&mut scene, &receipt, ends_ms));
}

#[test]
fn a_classic_member_compares_topics_for_the_whole_group() {
    let mut scene = classic_only();
    scene.change_topic("foo", 1, 6);
    let ends_ms = scene.now_ms + REFRESH_MS;
    assert_eq!(heartbeat(&mut scene, "A", None, 4), "0", "they are as they were");
    scene.now_ms += 1_000;
    assert_eq!(scene.send(&join("m0", &[])), "4 []");
    let now = scene.now();
    let receipt = submit(&mut scene.coordinator, now, "m0", 4).receipt.expect("a heartbeat that changes nothing");
    assert!(ends_at(&mut scene, &receipt, ends_ms));
}

/// Time alone makes the target due: the heartbeat that computes it has to be handled as a request.
#[test]
fn a_group_whose_next_target_is_not_due_gives_no_receipt_and_writes_nothing() {
    let mut scene = Scene::new(settings(1_000));
    assert_eq!(scene.send(&join("m0", &["one", "bar"])), "2 [bar:012 one:0]");
    assert_eq!(scene.send(&join("m1", &["one", "bar"])), "2 []");
    assert_eq!(scene.state(), "Assigning G3 T2");
    for ms in [0, 1, 998] {
        scene.now_ms += ms;
        let now = scene.now();
        let seen = submit(&mut scene.coordinator, now, "m0", 2);
        assert!(seen.receipt.is_none() && seen.appends == 0 && !seen.answer.is_empty(), "after {ms} ms more");
    }
    scene.now_ms += 1;
    scene.records();
    assert_eq!(scene.send(&beat("m0", 2)), "2 [bar:01]");
    assert!(scene.records().starts_with("7(m0 bar:01) 7(m1 bar:2 one:0) 6(3)"));
    assert_eq!(scene.state(), "Reconciling G3 T3");
}

/// Patterns are resolved again after a time of the wall clock, too.
#[test]
fn a_group_with_patterns_gives_no_receipt() {
    let mut scene = Scene::new(settings(0));
    assert_eq!(scene.send(&join_by("m0", "o.*")), "1 []");
    scene.tick();
    assert_eq!(scene.send(&beat("m0", 1)), "2 [one:0]");
    let now = scene.now();
    let seen = submit(&mut scene.coordinator, now, "m0", 2);
    assert!(seen.receipt.is_none() && seen.appends == 0 && !seen.answer.is_empty(), "{}", seen.answer);
}

/// A coordinator of this epoch with the member m0, and the receipt of its heartbeat.
fn founded(epoch: u32, now: Now) -> (Coordinator, Receipt) {
    let mut coordinator = Coordinator::new(Config::default(), 0, epoch);
    coordinator.configure_consumer_groups(settings(0));
    coordinator.loaded(now, &mut Seen::default());
    let Request::ConsumerGroupHeartbeat(quiet) = quiet("m0", 0) else { unreachable!() };
    let join = ConsumerGroupHeartbeat {
        rebalance_timeout_ms: 60_000,
        subscribed_topic_names: Some(&[]),
        topic_partitions: Some(&[]),
        ..quiet
    };
    let join = Request::ConsumerGroupHeartbeat(join);
    coordinator.submit(now, Ticket(1), Entropy(0), join, &mut Seen::default());
    coordinator.appended(AppendId(0), Ok(0), now, &mut Seen::default());
    let receipt = submit(&mut coordinator, now, "m0", 1).receipt.expect("a heartbeat that changes nothing");
    (coordinator, receipt)
}

#[test]
fn a_receipt_is_of_no_other_incarnation_though_the_group_is_the_same() {
    let now = Now { mono_ms: 1_000, wall_ms: 1_700_000_000_000 };
    let ((mut first, receipt), (mut second, _)) = (founded(1, now), founded(2, now));
    assert!(first.repeat_heartbeat(now, &receipt));
    assert!(!second.repeat_heartbeat(now, &receipt));
}
