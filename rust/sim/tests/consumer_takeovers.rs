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

fn settle(room: &mut Household) {
    room.wait_until(60_000, |room| room.is_settled(&[0]) && !room.clients[0].holds.is_empty());
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
    let mut room = Household::new(&[("t", 1), ("u", 1), ("v", 1)]);
    let at = room.add(Member::new(config()).expect("a good configuration"));
    let hidden = [2, 3].map(|id| room.ids.remove(&id).expect("a topic"));
    room.happen(at, topics(&["t", "u", "v"]));
    room.wait_until(60_000, |room| room.clients[at].holds.len() == 1);
    room.happen(at, Event::Position { partition: Partition::new("t", 0), offset: Offset::at(7) });
    // What "u" adds waits for a commit, and meanwhile a heartbeat says that the member has "t" only, since it cannot read all
    // of its assignment.
    room.clients[at].misses = Some(|request| is_beat(request) || matches!(request, Request::OffsetCommit { .. }));
    room.ids.insert(2, hidden[0].clone());
    room.pass(2 * HEARTBEAT_MS);
    room.clients[at].misses = Some(is_beat);
    for _ in 0..30 {
        room.pass(1_000);
        assert_eq!(room.clients[at].holds.len(), 1, "the coordinator could give it to another member");
    }
    let is_commit = |request: &&Request| matches!(request, Request::OffsetCommit { .. });
    assert!(room.clients[at].sent.iter().filter(is_commit).count() > 1, "the commit was answered");
    room.clients[at].misses = None;
    room.ids.insert(3, hidden[1].clone());
    settle(&mut room);
}

/// It had committed before, and waited for the answer to a heartbeat; the application read on.
#[test]
fn positions_are_committed_again_before_a_revocation_that_came_meanwhile() {
    let mut room = Household::new(&[("a", 1), ("b", 1), ("t", 2)]);
    let at = room.add(Member::new(config()).expect("a good configuration"));
    let hidden = [1, 2].map(|id| room.ids.remove(&id).expect("a topic"));
    room.happen(at, topics(&["a", "b", "t"]));
    room.wait_until(60_000, |room| room.clients[at].holds.len() == 2);
    let read_to = |room: &mut Household, offset| {
        for index in 0..2 {
            let partition = Partition::new("t", index);
            room.happen(at, Event::Position { partition, offset: Offset::at(offset) });
        }
    };
    read_to(&mut room, 7);
    room.clients[at].misses = Some(|request| is_beat(request) || matches!(request, Request::OffsetCommit { .. }));
    room.ids.insert(1, hidden[0].clone());
    room.pass(2 * HEARTBEAT_MS);
    room.clients[at].misses = Some(is_beat);
    room.pass(30_000);
    assert_eq!(room.clients[at].holds.len(), 2, "it has committed, and waits for an answer");
    read_to(&mut room, 70);
    let other = room.add(Member::new(Config { seed: 1, ..config() }).expect("a good configuration"));
    room.happen(other, topics(&["a", "b", "t"]));
    room.ids.insert(2, hidden[1].clone());
    room.clients[at].misses = None;
    room.wait_until(60_000, |room| room.is_settled(&[at, other]) && !room.clients[other].holds.is_empty());
    let moved: Vec<Partition> = room.clients[other].holds.iter().filter(|one| &*one.topic == "t").cloned().collect();
    assert_eq!(moved.len(), 2, "it gave up what it held: {:?}", room.clients[other].holds);
    room.happen(other, Event::Fetch { fetch: CommitId(1), partitions: moved.clone() });
    let expected = moved.into_iter().map(|one| (one, Some(Offset::at(70)))).collect();
    assert!(room.clients[other].notices.contains(&Notice::Fetched { fetch: CommitId(1), result: Ok(expected) }));
}
