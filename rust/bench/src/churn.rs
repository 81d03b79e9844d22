//! Heartbeats at a steady rate while members come, leave and fall silent: what a heartbeat waits for in a coordinator
//! that also lets groups rebalance, without sockets.
//!
//! The loop is open: a heartbeat is due when its time has come, whatever the coordinator is at, and its time counts from
//! then. So a rebalance that takes a millisecond is seen by every heartbeat that was due in it. The time is that of the
//! caller's clock: with one of the thread's own processor time other processes are not seen.

use std::{collections::VecDeque, hint, time::Duration};

use bytes::BytesMut;
use hdrhistogram::Histogram;
use rota_core::{
    Answer, AppendId, Coordinator, Entropy, ErrorCode, Now, Record, Request, Sink, Ticket,
    request::{Heartbeat, LeaveGroup, LeaveIdentity},
};
use rota_wire::beat::FramedBeat;

use crate::{
    BenchError,
    crowd::Seat,
    stage::{Stage, join_request, plan_for, sync_request},
};

const GROUP_MEMBERS: usize = 100;
/// How often each member heartbeats.
const INTERVAL_MS: u64 = 3_000;
/// How long a member may be silent, and how long a rebalance waits for it.
const TIMEOUT_MS: i32 = 6_000;
const HIGHEST_NS: u64 = 60_000_000_000;
/// An odd multiplier: the members heartbeat and change in an order in which no group's are together.
const STRIDE: usize = 0x9e37_79b1;

/// What is to happen.
#[derive(Clone, Copy, Debug)]
pub struct ChurnPlan {
    /// Members, in groups of a hundred; each heartbeats every three seconds.
    pub members: usize,
    /// Members that are replaced by a new one in a second: every other one leaves, the rest only fall silent, and expire.
    pub changes_per_s: u32,
    /// How long.
    pub duration: Duration,
}

/// What has happened.
#[derive(Clone, Debug)]
pub struct Churned {
    /// From when a heartbeat was due until it was answered, nanoseconds.
    pub took_ns: Histogram<u64>,
    /// Members that left and were replaced.
    pub left: u64,
    /// Members that fell silent and were replaced.
    pub silenced: u64,
    /// Answers to joins that were good: 100 or so are a rebalance.
    pub joined: u64,
}

/// A member, as it sees itself.
struct Actor {
    seat: Seat,
    heartbeat: Vec<u8>,
    /// It waits for an answer to its join or sync, or has gone: it sends no heartbeats.
    is_waiting: bool,
}

/// What a member was told.
enum Told {
    Joined { member_id: String, generation: i32, others: Vec<String> },
    Synced,
    Beat(ErrorCode),
    Refused(ErrorCode),
}

#[derive(Default)]
struct Heard {
    told: VecDeque<(usize, Told)>,
    appends: VecDeque<AppendId>,
}

/// The ticket of requests whose answer nobody waits for.
const NOBODY: Ticket = Ticket(u64::MAX);

impl Sink for Heard {
    fn answer(&mut self, ticket: Ticket, answer: Answer<'_>) {
        if ticket == NOBODY {
            return;
        }
        let told = match answer {
            Answer::JoinGroup(joined) if joined.error == ErrorCode::None => Told::Joined {
                member_id: joined.member_id.to_owned(),
                generation: joined.generation,
                others: joined.members.iter().map(|member| member.member_id.to_owned()).collect(),
            },
            Answer::JoinGroup(refused) => Told::Refused(refused.error),
            Answer::SyncGroup(synced) if synced.error == ErrorCode::None => Told::Synced,
            Answer::SyncGroup(refused) => Told::Refused(refused.error),
            Answer::Heartbeat(error) => Told::Beat(error),
            _ => return,
        };
        self.told.push_back((ticket.0 as usize, told));
    }

    fn append(&mut self, id: AppendId, _: &[Record]) {
        self.appends.push_back(id);
    }
}

struct Scene {
    coordinator: Coordinator,
    now: Now,
    heard: Heard,
    actors: Vec<Actor>,
    appended: u64,
    requests: u128,
    out: BytesMut,
    churned: Churned,
}

fn histogram() -> Result<Histogram<u64>, BenchError> {
    Histogram::new_with_max(HIGHEST_NS, 3).map_err(|error| BenchError(format!("no histogram: {error}")))
}

/// A clock that begins at 0 now.
fn from_now(clock: impl Fn() -> Duration) -> impl Fn() -> Duration {
    let began = clock();
    move || clock().saturating_sub(began)
}

/// Waits until it is so late; gives how late it is then.
fn wait_until(due: Duration, elapsed: impl Fn() -> Duration) -> Duration {
    loop {
        let now = elapsed();
        if now >= due {
            return now;
        }
        hint::spin_loop();
    }
}

/// The floor: the same heartbeats fall due, and nothing is done but to look at the clock. What comes of it is the
/// machine's and its other processes'.
pub fn floor(plan: &ChurnPlan, clock: impl Fn() -> Duration) -> Result<Histogram<u64>, BenchError> {
    let (elapsed, mut took_ns) = (from_now(clock), histogram()?);
    for beat in 0.. {
        let due = due(plan, beat);
        if due >= plan.duration {
            break;
        }
        wait_until(due, &elapsed);
        took_ns.saturating_record(elapsed().saturating_sub(due).as_nanos() as u64);
    }
    Ok(took_ns)
}

/// When heartbeat number `beat` is due.
fn due(plan: &ChurnPlan, beat: u64) -> Duration {
    let interval_ns = u128::from(INTERVAL_MS) * 1_000_000;
    Duration::from_nanos((interval_ns * u128::from(beat) / plan.members.max(1) as u128) as u64)
}

/// Heartbeats of all members for so long, while some of them are replaced. Errors: a member was told what none of these
/// should be.
pub fn run(plan: &ChurnPlan, clock: impl Fn() -> Duration) -> Result<Churned, BenchError> {
    let mut scene = Scene::settled(plan.members)?;
    let (elapsed, mut change, count) = (from_now(clock), 0_u64, plan.members);
    for beat in 0.. {
        let due = due(plan, beat);
        if due >= plan.duration || count == 0 {
            break;
        }
        scene.look_at(wait_until(due, &elapsed));
        while u128::from(change + 1) * 1_000_000_000 <= u128::from(plan.changes_per_s) * due.as_nanos() {
            scene.replace(change, (change as usize).wrapping_mul(STRIDE) % count)?;
            change += 1;
        }
        let at = (beat as usize).wrapping_mul(STRIDE) % count;
        if !scene.actors[at].is_waiting {
            scene.beat(at);
            scene.churned.took_ns.saturating_record(elapsed().saturating_sub(due).as_nanos() as u64);
        }
        scene.follow()?;
    }
    Ok(scene.churned)
}

impl Scene {
    fn settled(members: usize) -> Result<Scene, BenchError> {
        let mut stage = Stage::new();
        (stage.session_timeout_ms, stage.rebalance_timeout_ms) = (TIMEOUT_MS, TIMEOUT_MS);
        let seats = stage.settle(members, GROUP_MEMBERS)?;
        let actor = |seat: Seat| Actor { heartbeat: frame(&seat), seat, is_waiting: false };
        let Stage { coordinator, now, appended, requests, .. } = stage;
        Ok(Scene {
            coordinator,
            now,
            heard: Heard::default(),
            actors: seats.into_iter().map(actor).collect(),
            appended,
            requests,
            out: BytesMut::with_capacity(64),
            churned: Churned { took_ns: histogram()?, left: 0, silenced: 0, joined: 0 },
        })
    }

    /// Time passes: whatever is due fires.
    fn look_at(&mut self, elapsed: Duration) {
        let mono_ms = elapsed.as_millis() as u64;
        if mono_ms > self.now.mono_ms {
            self.now.mono_ms = mono_ms;
            self.coordinator.advance(self.now, &mut self.heard);
            self.keep();
        }
    }

    fn submit(&mut self, ticket: Ticket, request: Request<'_>) {
        self.requests += 1;
        self.coordinator.submit(self.now, ticket, Entropy(self.requests << 64), request, &mut self.heard);
        self.keep();
    }

    /// The log keeps everything at once.
    fn keep(&mut self) {
        while let Some(id) = self.heard.appends.pop_front() {
            self.coordinator.appended(id, Ok(self.appended), self.now, &mut self.heard);
            self.appended += 1;
        }
    }

    /// From the bytes of a heartbeat to those of its answer, as a connection has them.
    fn beat(&mut self, at: usize) {
        let framed = FramedBeat::read(&self.actors[at].heartbeat);
        let short = framed.and_then(|framed| Some((framed, self.coordinator.beat_by_hint(self.now, &framed.beat)?)));
        if let Some((framed, error)) = short {
            self.out.clear();
            framed.answer(&mut self.out, error);
            hint::black_box(&self.out);
            if error != ErrorCode::None {
                self.heard.told.push_back((at, Told::Beat(error)));
            }
            return;
        }
        let Seat { group, member_id, generation } = self.actors[at].seat.clone();
        let request = Heartbeat { group_id: Some(&group), generation, member_id: &member_id, instance_id: None };
        self.submit(Ticket(at as u64), Request::Heartbeat(request));
    }

    /// A member makes room for a new one, which joins at once.
    fn replace(&mut self, change: u64, at: usize) -> Result<(), BenchError> {
        if self.actors[at].is_waiting {
            return Ok(());
        }
        let Seat { group, member_id, .. } = self.actors[at].seat.clone();
        if change.is_multiple_of(2) {
            let members = [LeaveIdentity { member_id: &member_id, instance_id: None, reason: None }];
            let leave = LeaveGroup { version: 3, group_id: Some(&group), members: &members };
            self.submit(NOBODY, Request::LeaveGroup(leave));
            self.churned.left += 1;
        } else {
            self.churned.silenced += 1;
        }
        self.actors[at].seat.member_id.clear();
        self.join(at);
        self.follow()
    }

    fn join(&mut self, at: usize) {
        self.actors[at].is_waiting = true;
        let Seat { group, member_id, .. } = self.actors[at].seat.clone();
        self.submit(Ticket(at as u64), join_request(&group, &member_id, TIMEOUT_MS, TIMEOUT_MS));
    }

    /// Members do what follows from what they were told.
    fn follow(&mut self) -> Result<(), BenchError> {
        while let Some((at, told)) = self.heard.told.pop_front() {
            match told {
                Told::Joined { member_id, generation, others } => self.sync(at, member_id, generation, &others),
                Told::Synced => {
                    let actor = &mut self.actors[at];
                    actor.heartbeat = frame(&actor.seat);
                    actor.is_waiting = false;
                }
                Told::Beat(ErrorCode::None) => {}
                Told::Beat(ErrorCode::RebalanceInProgress) | Told::Refused(ErrorCode::RebalanceInProgress) => {
                    self.join(at);
                }
                Told::Beat(error) | Told::Refused(error) => match error {
                    ErrorCode::UnknownMemberId | ErrorCode::IllegalGeneration => {
                        self.actors[at].seat.member_id.clear();
                        self.join(at);
                    }
                    error => return Err(BenchError(format!("a member was told {error:?}"))),
                },
            }
        }
        Ok(())
    }

    fn sync(&mut self, at: usize, member_id: String, generation: i32, others: &[String]) {
        self.churned.joined += 1;
        let plan = plan_for(others.iter().map(String::as_str));
        let seat = Seat { group: self.actors[at].seat.group.clone(), member_id, generation };
        self.submit(Ticket(at as u64), sync_request(&seat, &plan));
        self.actors[at].seat = seat;
    }
}

/// A heartbeat without its length, as a server has it when it handles it.
fn frame(seat: &Seat) -> Vec<u8> {
    seat.heartbeat().split_off(4)
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    /// Every look at it takes ten microseconds.
    fn clock() -> impl Fn() -> Duration {
        let looks = Cell::new(0);
        move || {
            looks.set(looks.get() + 1);
            Duration::from_micros(10 * looks.get())
        }
    }

    fn plan(changes_per_s: u32) -> ChurnPlan {
        ChurnPlan { members: 200, changes_per_s, duration: Duration::from_millis(900) }
    }

    #[test]
    fn members_that_nobody_replaces_heartbeat_when_they_are_due_and_never_join_again() {
        let still = run(&plan(0), clock()).unwrap();
        assert_eq!((still.took_ns.len(), still.joined), (60, 0), "200 members, each every three seconds");
        assert_eq!(floor(&plan(0), clock()).unwrap().len(), 60);
    }

    #[test]
    fn members_are_replaced_at_the_rate_of_the_plan_by_turns_of_both_kinds() {
        let churned = run(&plan(10), clock()).unwrap();
        assert_eq!((churned.left, churned.silenced), (4, 4), "ten a second, and the last heartbeat is due at 885 ms");
        let long = ChurnPlan { duration: Duration::from_secs(10), ..plan(1) };
        let churned = run(&long, clock()).unwrap();
        let told = (churned.left, churned.silenced, churned.joined);
        assert_eq!(
            told,
            (4, 4, 300),
            "of nine, one finds its member waiting; three join phases of a hundred end in time"
        );
    }

    #[test]
    fn members_that_are_replaced_have_their_groups_join_again() {
        let mut scene = Scene::settled(200).unwrap();
        // The one who leaves and the one who falls silent are of one group; the other one is left alone.
        scene.replace(0, 3).unwrap();
        scene.replace(1, 4).unwrap();
        for second in 0..=10 {
            scene.look_at(Duration::from_secs(second));
            for at in 0..200 {
                if !scene.actors[at].is_waiting {
                    scene.beat(at);
                }
                scene.follow().unwrap();
            }
        }
        assert_eq!((scene.churned.left, scene.churned.silenced, scene.churned.joined), (1, 1, 100));
        assert!(scene.actors.iter().all(|actor| !actor.is_waiting), "who fell silent has expired");
        let generations = |group: usize| scene.actors[group * 100..][..100].iter().map(|actor| actor.seat.generation);
        assert!(generations(0).all(|generation| generation == scene.actors[0].seat.generation));
        assert!(scene.actors[0].seat.generation > scene.actors[100].seat.generation);
        assert!(generations(1).all(|generation| generation == scene.actors[100].seat.generation));
    }
}
