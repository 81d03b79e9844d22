//! Measures heartbeats at a steady rate while members join, leave and fall silent: the delay of a heartbeat in a
//! coordinator that also rebalances, without sockets.
//!
//! The loop is open: a heartbeat is due when its time has come, whatever the coordinator is at, and its time counts from
//! then. So a rebalance that takes a millisecond is seen by every heartbeat that was due in it. The time is that of the
//! caller's clock: with one of the thread's own processor time other processes are not seen.
//!
//! All members join at once, which real members do not. So the plan has a warm-up before the measurement, played as
//! fast as possible, in which they heartbeat and change as later, without counting.

use std::{hint, time::Duration};

use bytes::BytesMut;
use hdrhistogram::Histogram;
use rota_core::{
    ErrorCode, Request, Ticket,
    request::{Heartbeat, LeaveGroup, LeaveIdentity},
};
use rota_wire::heartbeat_frame::HeartbeatFrame;

use crate::{
    BenchError,
    crowd::Seat,
    passes::{Passes, Step},
    stage::{MemberAnswer, Stage, join_request, plan_for, sync_request},
};

const GROUP_MEMBERS: usize = 100;
/// Heartbeat interval of each member in milliseconds.
const INTERVAL_MS: u64 = 3_000;
/// Session and rebalance timeout in milliseconds.
const TIMEOUT_MS: i32 = 6_000;
const HIGHEST_NS: u64 = 60_000_000_000;
/// An odd multiplier: members of one group are far apart in the order of heartbeats.
const STRIDE: usize = 0x9e37_79b1;

/// Chooses the member to change, in scattered order. In heartbeat order, silent members would expire together.
fn changing(change: u64, count: usize) -> usize {
    let mut mixed = change.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    ((mixed ^ mixed >> 32) % count as u64) as usize
}

/// The plan of a measurement.
#[derive(Clone, Copy, Debug)]
pub struct ChurnPlan {
    /// Number of members, in groups of a hundred. Each sends a heartbeat every three seconds.
    pub members: usize,
    /// Members replaced per second. Every other one leaves; the others fall silent and expire.
    pub changes_per_s: u32,
    /// Warm-up, without measurement.
    pub warm_up: Duration,
    /// Duration of the measurement.
    pub duration: Duration,
    /// Whether every step of the coordinator is timed, which makes each slower.
    pub timing_steps: bool,
}

/// The results of a measurement.
#[derive(Clone, Debug)]
pub struct ChurnResult {
    /// Nanoseconds from the due time of a heartbeat to its answer.
    pub took_ns: Histogram<u64>,
    /// Number of members that left and were replaced.
    pub left: u64,
    /// Number of members that fell silent and were replaced.
    pub silenced: u64,
    /// Number of successful joins; a rebalance has about 100.
    pub joined: u64,
    /// The time of long passes, by step.
    pub passes: Passes,
}

/// A member's own state.
struct Actor {
    seat: Seat,
    heartbeat: Vec<u8>,
    /// Whether it waits for a join or sync, or has left, and so sends no heartbeats.
    is_waiting: bool,
}

struct Scene<C> {
    plan: ChurnPlan,
    clock: C,
    stage: Stage,
    actors: Vec<Actor>,
    out: BytesMut,
    /// Number of heartbeats and changes so far.
    beats: u64,
    changes: u64,
    churned: ChurnResult,
}

fn histogram() -> Result<Histogram<u64>, BenchError> {
    Histogram::new_with_max(HIGHEST_NS, 3).map_err(|error| BenchError(format!("no histogram: {error}")))
}

/// Returns a clock that starts at `from`.
fn from_now(from: Duration, clock: impl Fn() -> Duration) -> impl Fn() -> Duration {
    let began = clock();
    move || clock().saturating_sub(began) + from
}

/// Waits until a time is due, and returns how late it is.
fn wait_until(due: Duration, elapsed: impl Fn() -> Duration) -> Duration {
    loop {
        let now = elapsed();
        if now >= due {
            return now;
        }
        hint::spin_loop();
    }
}

/// Measures the floor: the same due times without any work, so that only the machine and other processes delay.
pub fn floor(plan: &ChurnPlan, clock: impl Fn() -> Duration) -> Result<Histogram<u64>, BenchError> {
    let (elapsed, mut took_ns) = (from_now(Duration::ZERO, clock), histogram()?);
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

/// Returns when heartbeat number `beat` is due.
fn due(plan: &ChurnPlan, beat: u64) -> Duration {
    let interval_ns = u128::from(INTERVAL_MS) * 1_000_000;
    Duration::from_nanos((interval_ns * u128::from(beat) / plan.members.max(1) as u128) as u64)
}

/// Runs heartbeats of all members, while some are replaced. Errors: an answer that no member should get.
pub fn run(plan: &ChurnPlan, clock: impl Fn() -> Duration) -> Result<ChurnResult, BenchError> {
    let mut scene = Scene::settled(*plan, &clock)?;
    while let Some(due) = scene.due_before(plan.warm_up) {
        scene.pass(due, due)?;
    }
    scene.churned = ChurnResult::nothing()?;
    let elapsed = from_now(plan.warm_up, &clock);
    while let Some(due) = scene.due_before(plan.warm_up + plan.duration) {
        let began = wait_until(due, &elapsed);
        scene.pass(due, began)?;
        let took = elapsed().saturating_sub(began);
        scene.churned.passes.end(took);
    }
    Ok(scene.churned)
}

impl ChurnResult {
    fn nothing() -> Result<ChurnResult, BenchError> {
        Ok(ChurnResult { took_ns: histogram()?, left: 0, silenced: 0, joined: 0, passes: Passes::default() })
    }
}

impl<C: Fn() -> Duration> Scene<C> {
    fn settled(plan: ChurnPlan, clock: C) -> Result<Scene<C>, BenchError> {
        let mut stage = Stage::new();
        (stage.session_timeout_ms, stage.rebalance_timeout_ms) = (TIMEOUT_MS, TIMEOUT_MS);
        let seats = stage.settle(plan.members, GROUP_MEMBERS)?;
        stage.answers.is_followed = true;
        let actor = |seat: Seat| Actor { heartbeat: frame(&seat), seat, is_waiting: false };
        Ok(Scene {
            plan,
            clock,
            stage,
            actors: seats.into_iter().map(actor).collect(),
            out: BytesMut::with_capacity(64),
            beats: 0,
            changes: 0,
            churned: ChurnResult::nothing()?,
        })
    }

    /// Returns the due time of the next heartbeat, if it is before `end`.
    fn due_before(&self, end: Duration) -> Option<Duration> {
        Some(due(&self.plan, self.beats)).filter(|due| *due < end && self.plan.members > 0)
    }

    /// Handles the heartbeat that was due at `due`, at time `now`, with all earlier changes and their consequences.
    fn pass(&mut self, due: Duration, now: Duration) -> Result<(), BenchError> {
        let (began, count) = ((self.clock)(), self.plan.members);
        self.look_at(now);
        while u128::from(self.changes + 1) * 1_000_000_000 <= u128::from(self.plan.changes_per_s) * due.as_nanos() {
            self.replace(self.changes, changing(self.changes, count))?;
            self.changes += 1;
        }
        let at = (self.beats as usize).wrapping_mul(STRIDE) % count;
        self.beats += 1;
        if !self.actors[at].is_waiting {
            self.beat(at);
            let late = now.saturating_sub(due);
            let took = late + (self.clock)().saturating_sub(began);
            self.churned.took_ns.saturating_record(took.as_nanos() as u64);
        }
        self.follow()
    }

    /// Advances the coordinator and fires what is due.
    fn look_at(&mut self, elapsed: Duration) {
        let mono_ms = elapsed.as_millis() as u64;
        if mono_ms > self.stage.now.mono_ms {
            self.stage.now.mono_ms = mono_ms;
            self.timed(Step::Advance, Stage::advance);
            self.keep();
        }
    }

    /// Runs a step of the coordinator, timed if requested.
    fn timed(&mut self, step: Step, work: impl FnOnce(&mut Stage)) {
        if !self.plan.timing_steps {
            return work(&mut self.stage);
        }
        let began = (self.clock)();
        work(&mut self.stage);
        self.churned.passes.step(step, (self.clock)().saturating_sub(began));
    }

    fn submit(&mut self, step: Step, ticket: Ticket, request: Request<'_>) {
        self.timed(step, |stage| stage.ask(ticket, request));
        self.keep();
    }

    fn keep(&mut self) {
        if !self.stage.answers.appends.is_empty() {
            self.timed(Step::Appended, Stage::keep);
        }
    }

    /// Handles a heartbeat from its bytes to those of its answer.
    fn beat(&mut self, at: usize) {
        if let Some(framed) = HeartbeatFrame::read(&self.actors[at].heartbeat) {
            let Stage { coordinator, now, answers, .. } = &mut self.stage;
            self.out.clear();
            let error = coordinator.heartbeat(*now, framed.heartbeat());
            framed.answer(&mut self.out, error);
            if error != ErrorCode::None {
                answers.received.push_back((Ticket(at as u64), MemberAnswer::Beat(error)));
            }
            hint::black_box(&self.out);
            return;
        }
        let Seat { group, member_id, generation } = self.actors[at].seat.clone();
        let request = Heartbeat { group_id: Some(&group), generation, member_id: &member_id, instance_id: None };
        self.submit(Step::Heartbeat, Ticket(at as u64), Request::Heartbeat(request));
    }

    /// Replaces a member by a new one, which joins at once.
    fn replace(&mut self, change: u64, at: usize) -> Result<(), BenchError> {
        if self.actors[at].is_waiting {
            return Ok(());
        }
        let Seat { group, member_id, .. } = self.actors[at].seat.clone();
        if change.is_multiple_of(2) {
            let members = [LeaveIdentity { member_id: &member_id, instance_id: None, reason: None }];
            let leave = LeaveGroup { version: 3, group_id: Some(&group), members: &members };
            self.submit(Step::Leave, Ticket(at as u64), Request::LeaveGroup(leave));
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
        self.submit(Step::Join, Ticket(at as u64), join_request(&group, &member_id, TIMEOUT_MS, TIMEOUT_MS));
    }

    /// Lets members react to their answers.
    fn follow(&mut self) -> Result<(), BenchError> {
        while let Some((ticket, told)) = self.stage.answers.received.pop_front() {
            let at = ticket.0 as usize;
            match told {
                MemberAnswer::Joined { member_id, generation, others } => self.sync(at, member_id, generation, &others),
                MemberAnswer::Synced => {
                    let actor = &mut self.actors[at];
                    actor.heartbeat = frame(&actor.seat);
                    actor.is_waiting = false;
                }
                MemberAnswer::Beat(ErrorCode::None) | MemberAnswer::Left(ErrorCode::None) => {}
                MemberAnswer::Beat(ErrorCode::RebalanceInProgress)
                | MemberAnswer::Refused(ErrorCode::RebalanceInProgress) => {
                    self.join(at);
                }
                MemberAnswer::Beat(error) | MemberAnswer::Left(error) | MemberAnswer::Refused(error) => match error {
                    ErrorCode::UnknownMemberId | ErrorCode::IllegalGeneration => {
                        self.actors[at].seat.member_id.clear();
                        self.join(at);
                    }
                    error => return Err(BenchError(format!("a member got {error:?}"))),
                },
            }
        }
        Ok(())
    }

    fn sync(&mut self, at: usize, member_id: String, generation: i32, others: &[String]) {
        self.churned.joined += 1;
        let plan = plan_for(others.iter().map(String::as_str));
        let seat = Seat { group: self.actors[at].seat.group.clone(), member_id, generation };
        self.submit(Step::Sync, Ticket(at as u64), sync_request(&seat, &plan));
        self.actors[at].seat = seat;
    }
}

/// Returns the frame of a heartbeat without its length.
fn frame(seat: &Seat) -> Vec<u8> {
    seat.heartbeat().split_off(4)
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    /// A clock that advances by ten microseconds per call.
    fn clock() -> impl Fn() -> Duration {
        let looks = Cell::new(0);
        move || {
            looks.set(looks.get() + 1);
            Duration::from_micros(10 * looks.get())
        }
    }

    fn plan(changes_per_s: u32) -> ChurnPlan {
        let (warm_up, duration) = (Duration::ZERO, Duration::from_millis(900));
        ChurnPlan { members: 200, changes_per_s, warm_up, duration, timing_steps: false }
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
        assert_eq!(
            (churned.left, churned.silenced),
            (4, 3),
            "ten a second, the last heartbeat is due at 885 ms, and one finds its member waiting"
        );
        let long = ChurnPlan { duration: Duration::from_secs(10), ..plan(1) };
        let churned = run(&long, clock()).unwrap();
        let told = (churned.left, churned.silenced, churned.joined);
        assert_eq!(
            told,
            (4, 2, 300),
            "of nine, three find their member waiting; three join phases of a hundred end in time"
        );
    }

    #[test]
    fn members_that_are_replaced_have_their_groups_join_again() {
        let mut scene = Scene::settled(plan(0), clock()).unwrap();
        // The member that leaves and the silent one are of one group; the other group is unaffected.
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

    #[test]
    fn what_goes_before_the_clock_counts_for_nothing_but_what_it_leaves_behind() {
        let (warm_up, duration) = (Duration::from_secs(5), Duration::from_secs(5));
        let still = run(&ChurnPlan { warm_up, ..plan(0) }, clock()).unwrap();
        assert_eq!((still.took_ns.len(), still.joined), (60, 0));
        let churned = run(&ChurnPlan { warm_up, duration, ..plan(1) }, clock()).unwrap();
        assert!((1..=5).contains(&(churned.left + churned.silenced)), "five are due while the clock runs");
        assert!(churned.joined >= 100, "a group whose member fell silent before then goes on without it");
    }

    #[test]
    fn those_who_change_one_after_the_other_do_not_heartbeat_so() {
        const MEMBERS: usize = 100_000;
        let mut turns = vec![0; MEMBERS];
        (0..MEMBERS).for_each(|beat| turns[beat.wrapping_mul(STRIDE) % MEMBERS] = beat);
        let mut tenths = [0; 10];
        (0..1_000).for_each(|change| tenths[turns[changing(change, MEMBERS)] * 10 / MEMBERS] += 1);
        assert!(tenths.iter().all(|changes| (70..=130).contains(changes)), "{tenths:?}");
    }

    #[test]
    fn steps_are_timed_if_the_plan_says_so() {
        let timed = run(&ChurnPlan { timing_steps: true, ..plan(10) }, clock()).unwrap();
        let [joins, untimed] =
            [&timed, &run(&plan(10), clock()).unwrap()].map(|churned| churned.passes.longest_step[Step::Join as usize]);
        assert_eq!((joins, untimed), (Duration::from_micros(10), Duration::ZERO));
    }
}
