//! What a member of the newer protocol has said of its partitions, and takes over only behind the answer
//! (docs/consumer-protocol.md §22.3).

mod household;

use std::sync::Arc;

use household::Household;
use rota_member::{CommitId, Config, Event, Member, Notice, Offset, Partition, Request, Subscription};

/// `group.consumer.heartbeat.interval.ms`.
const HEARTBEAT_MS: u64 = 5_000;

fn config() -> Config {
    Config { seed: 0, auto_commit_interval_ms: Some(600_000), ..Config::consumer("readers", None) }
}

fn topics(names: &[&str]) -> Event {
    Event::Subscribe(Subscription::Topics(names.iter().map(|name| Arc::from(*name)).collect()))
}

fn is_beat(request: &Request) -> bool {
    matches!(request, Request::ConsumerGroupHeartbeat(_))
}

fn is_commit(request: &Request) -> bool {
    matches!(request, Request::OffsetCommit { .. })
}

fn settle(room: &mut Household) {
    room.wait_until(60_000, |room| room.is_settled(&[0]) && !room.clients[0].holds.is_empty());
}

/// A member that has committed `read_to` of each partition of `t`, all that it holds, and waits for the answer to a heartbeat
/// before it takes the first of the `hidden` topics over. It cannot read all of its assignment, so the heartbeat says that it has
/// `t` only. Returns the name of the other hidden topic.
fn waiting(names: &[(&str, i32)], hidden: [u128; 2], read_to: i64) -> (Household, Arc<str>) {
    let mut room = Household::new(names);
    room.add(Member::new(config()).expect("a good configuration"));
    let [first, second] = hidden.map(|id| room.ids.remove(&id).expect("a topic"));
    room.happen(0, topics(&names.iter().map(|(name, _)| *name).collect::<Vec<_>>()));
    room.wait_until(60_000, |room| !room.clients[0].holds.is_empty());
    read(&mut room, read_to);
    room.clients[0].misses = Some(|request| is_beat(request) || is_commit(request));
    room.ids.insert(hidden[0], first);
    room.pass(2 * HEARTBEAT_MS);
    room.clients[0].misses = Some(is_beat);
    (room, second)
}

/// The application of the first member reads up to an offset.
fn read(room: &mut Household, offset: i64) {
    for partition in room.clients[0].holds.clone() {
        room.happen(0, Event::Position { partition, offset: Offset::at(offset) });
    }
}

/// Also if the answer is so late that the member sends another heartbeat.
#[test]
fn what_a_heartbeat_in_flight_lacks_is_taken_over_behind_its_answer() {
    let mut room = Household::new(&[("t", 2)]);
    let (at, hidden) =
        (room.add(Member::new(config()).expect("a good configuration")), room.ids.remove(&1).expect("the topic"));
    room.happen(at, topics(&["t"]));
    room.clients[at].misses = Some(is_beat);
    room.pass(HEARTBEAT_MS + 500);
    room.ids.insert(1, hidden);
    for _ in 0..40 {
        room.pass(1_000);
        assert!(room.clients[at].holds.is_empty(), "the coordinator could give it to another member");
    }
    room.clients[at].misses = None;
    settle(&mut room);
}

#[test]
fn a_heartbeat_that_is_sent_while_positions_are_committed_is_answered_first() {
    let (mut room, last) = waiting(&[("t", 1), ("u", 1), ("v", 1)], [2, 3], 7);
    for _ in 0..30 {
        room.pass(1_000);
        assert_eq!(room.clients[0].holds.len(), 1, "the coordinator could give it to another member");
    }
    assert!(room.clients[0].sent.iter().filter(|request| is_commit(request)).count() > 1, "the commit was answered");
    room.clients[0].misses = None;
    room.ids.insert(3, last);
    settle(&mut room);
}

/// It had committed before, and waited for the answer to a heartbeat; the application read on.
#[test]
fn positions_are_committed_again_before_a_revocation_that_came_meanwhile() {
    let (mut room, last) = waiting(&[("a", 1), ("b", 1), ("t", 2)], [1, 2], 7);
    room.pass(30_000);
    assert_eq!(room.clients[0].holds.len(), 2, "it has committed, and waits for an answer");
    read(&mut room, 70);
    let other = room.add(Member::new(Config { seed: 1, ..config() }).expect("a good configuration"));
    room.happen(other, topics(&["a", "b", "t"]));
    room.ids.insert(2, last);
    room.clients[0].misses = None;
    room.wait_until(60_000, |room| room.is_settled(&[0, other]) && !room.clients[other].holds.is_empty());
    let moved: Vec<Partition> = room.clients[other].holds.iter().filter(|one| &*one.topic == "t").cloned().collect();
    assert_eq!(moved.len(), 2, "it gave up what it held: {:?}", room.clients[other].holds);
    room.happen(other, Event::Fetch { fetch: CommitId(1), partitions: moved.clone() });
    let expected = moved.into_iter().map(|one| (one, Some(Offset::at(70)))).collect();
    assert!(room.clients[other].notices.contains(&Notice::Fetched { fetch: CommitId(1), result: Ok(expected) }));
}
