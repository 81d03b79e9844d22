//! Clients that send any request, a log that fails, and a history of all answers.

mod clients;
mod dice;
mod history;
mod log;
mod ways;

use std::collections::{BTreeMap, VecDeque};

use rota_core::{
    AppendId, Config, Coordinator, Entropy, ErrorCode, Now, Projection, Record, Request, SelfCheck, Ticket,
};

use dice::Rng;
use history::{Effects, Known, Open, Success};
pub use history::{Fault, History};
use log::LogHabits;

const GROUPS: [&str; 2] = ["g", "h"];

/// Every so many tickets a planted fault strikes.
const FAULT_EVERY: u64 = 50;

/// More calls of `advance` than this at one instant are a coordinator that does nothing but look.
const LOOKS_MAX: u32 = 20;

/// Odd, so that no two tickets give one entropy; an id keeps only some of its bits, so all of them should differ.
const SPREAD: u128 = 0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835;

#[derive(Clone)]
pub struct World {
    pub coordinator: Coordinator,
    pub history: History,
    /// Every event and effect in words, if they are wanted.
    pub transcript: Option<Vec<String>>,
    pub fault: Option<Fault>,
    /// Whether what happens has to be right; if not, it only must not panic.
    pub is_checked: bool,
    config: Config,
    dice: Rng,
    now: Now,
    tickets: u64,
    open: BTreeMap<Ticket, Open>,
    /// Whether the event is a request, the newest.
    submitting: bool,
    /// Identities from answers, the newest last.
    known: VecDeque<Known>,
    in_flight: Vec<(AppendId, Vec<Record>)>,
    /// Deletions whose append failed and that the log has nonetheless: a load finds them.
    in_doubt: BTreeMap<AppendId, Vec<Record>>,
    /// What the log has, by incarnation and append.
    log: BTreeMap<(u32, AppendId), Vec<Record>>,
    life: u32,
    log_habits: LogHabits,
    /// Shows one group after the other.
    view: Option<Projection>,
}

impl World {
    pub fn new(seed: u64) -> World {
        let config = config(seed);
        let mut world = World {
            coordinator: Coordinator::new(config.clone(), 0, 0),
            history: History::default(),
            transcript: None,
            fault: None,
            is_checked: true,
            config,
            dice: Rng::new(seed),
            now: Now { mono_ms: 1_000, wall_ms: 1_700_000_000_000 },
            tickets: 0,
            open: BTreeMap::new(),
            submitting: false,
            known: VecDeque::new(),
            in_flight: Vec::new(),
            in_doubt: BTreeMap::new(),
            log: BTreeMap::new(),
            life: 0,
            log_habits: LogHabits { fails: true, ends_out_of_order: seed % 3 == 2, is_slow: seed % 4 == 1 },
            view: None,
        };
        world.coordinator.check_itself(SelfCheck::Never);
        world.load();
        world
    }

    pub fn step(&mut self) {
        match self.dice.below(206) {
            0..14 => self.join_anew(),
            14..44 => self.rejoin(),
            44..54 => self.restart(),
            54..90 => self.sync(),
            90..102 => self.heartbeat(),
            102..106 => self.leave(),
            106..118 => self.commit(),
            118..126 => self.fetch(),
            126..128 => self.look(),
            128..156 => self.tick(),
            156..190 => self.end_append(),
            190..192 => self.forget_topic(),
            192..194 => self.restore(),
            194 if self.dice.chance(20) => self.reload(),
            195 if self.dice.chance(20) => self.calm_down(),
            200..203 => self.delete_group(),
            203..206 => self.delete_offsets(),
            _ => self.beat_by_handle(),
        }
    }

    /// Lets everything end: after it no request is open (L1–L4 as bounded safety).
    pub fn settle(&mut self) {
        self.calm_down();
        self.log_habits.fails = false;
        for _ in 0..400 {
            self.end_all_appends();
            self.pass(5_000);
        }
        self.end_all_appends();
        assert!(self.open.is_empty(), "S18: requests were never answered: {:?}", self.open.keys());
        let cleaner_ms = self.now.mono_ms + self.config.offsets_retention_check_interval_ms;
        let next = self.coordinator.next_deadline();
        assert!(next.is_some_and(|next| next <= cleaner_ms), "L7: the cleaner goes on for ever");
        assert_eq!(self.coordinator.group_ids(), [], "S25: no member came, and retention is over");
        assert_eq!(self.fold().group_ids(), [], "S29: what expired does not come back by a load");
    }

    fn event(&mut self, what: impl FnOnce() -> String, act: impl FnOnce(&mut Coordinator, &mut Effects)) {
        let words = self.transcript.as_ref().map(|_| vec![what()]);
        let mut effects = Effects { words, ..Effects::default() };
        act(&mut self.coordinator, &mut effects);
        if let (Some(transcript), Some(words)) = (&mut self.transcript, effects.words) {
            transcript.extend(words);
        }
        if let (Some(open), Some((append_id, _))) = (self.newest_open(), effects.appends.last()) {
            open.append.get_or_insert(*append_id);
        }
        self.submitting = false;
        self.in_flight.extend(effects.appends);
        if !self.is_checked {
            for (ticket, _, _) in effects.answers {
                self.open.remove(&ticket);
            }
            return;
        }
        self.coordinator.check_invariants().expect("the invariants hold");
        for group in GROUPS {
            let projection = self.coordinator.project(group);
            self.coordinator.project_into(group, &mut self.view);
            assert_eq!(self.view, projection, "a view that is used again shows what a new one does");
            if let Some(mut projection) = projection {
                if self.fault == Some(Fault::GenerationBack) && projection.generation > 2 {
                    projection.generation -= (self.tickets % 2) as i32;
                }
                self.history.observe(group, self.life, &projection);
            } else {
                self.history.observe_nothing(group);
            }
        }
        for (ticket, error, told) in effects.answers {
            self.answered(ticket, error, told);
        }
    }

    /// The request that is submitted at the moment, unless it writes nothing that its answer waits for.
    fn newest_open(&mut self) -> Option<&mut Open> {
        let newest = Ticket(self.tickets.checked_sub(1)?);
        let writes = |open: &&mut Open| matches!(open.kind, "OffsetCommit" | "OffsetDelete" | "DeleteGroup");
        self.open.get_mut(&newest).filter(|_| self.submitting).filter(writes)
    }

    fn strikes(&self, fault: Fault, ticket: Ticket) -> bool {
        self.fault == Some(fault) && ticket.0 % FAULT_EVERY == FAULT_EVERY - 1
    }

    fn answered(&mut self, ticket: Ticket, error: ErrorCode, told: Option<Success>) {
        if self.strikes(Fault::AnswerNever, ticket) {
            return;
        }
        let open = self.open.remove(&ticket).expect("S18: only an open ticket is answered, and once");
        self.history.see(format!("{} {}", open.kind, error.name()));
        match told {
            Some(Success::Join { member_id, generation, leader, listed, skip }) => {
                if skip {
                    self.history.see("skip_assignment".to_owned());
                }
                self.told_join(&open.known, member_id, generation, leader, listed);
            }
            Some(Success::Id(member_id)) => self.learn(Known { member_id, ..open.known }),
            Some(Success::Sync { mut assignment }) => {
                if self.fault == Some(Fault::WrongAssignment) {
                    assignment.push(0);
                }
                let group = open.known.group;
                let round = (group, self.history.era(group, self.life), open.generation);
                self.history.told_assignment(round, &open.known.member_id, &assignment);
            }
            Some(Success::Commit) => self.history.told_commit(open.append),
            Some(Success::Delete) => self.history.told_delete(open.known.group, open.append),
            Some(Success::OffsetDelete) => self.history.told_offset_delete(open.append),
            None => {}
        }
        if self.strikes(Fault::AnswerTwice, ticket) {
            self.answered(ticket, error, None);
        }
    }

    fn told_join(
        &mut self,
        known: &Known,
        mut id: String,
        generation: i32,
        mut leader: String,
        mut listed: Vec<String>,
    ) {
        self.learn(Known { member_id: id.clone(), ..known.clone() });
        match self.fault {
            Some(Fault::AnotherLeader) if !listed.is_empty() => {
                id = format!("{id}-{}", self.tickets);
                leader.clone_from(&id);
                listed = vec![id.clone()];
            }
            Some(Fault::ListToFollower) if listed.is_empty() => listed = vec![id.clone()],
            _ => {}
        }
        let live = self.coordinator.project(known.group).filter(|_| self.fault.is_none());
        let era = self.history.era(known.group, self.life);
        self.history.told_join((known.group, era, generation), &id, &leader, &listed, live.as_ref());
    }

    fn learn(&mut self, known: Known) {
        self.known.push_back(known);
        if self.known.len() > 40 {
            self.known.pop_front();
        }
    }

    fn submit(&mut self, known: &Known, kind: &'static str, generation: i32, request: Request<'_>) {
        let ticket = Ticket(self.tickets);
        self.tickets += 1;
        let entropy = Entropy(u128::from(self.tickets).wrapping_mul(SPREAD));
        self.open.insert(ticket, Open { known: known.clone(), kind, generation, append: None });
        let digests = GROUPS.map(|group| self.coordinator.digest(group));
        let now = self.now;
        let mut refused = false;
        self.submitting = true;
        self.event(
            || format!("{ticket:?} {request:?}"),
            |coordinator, effects| {
                coordinator.submit(now, ticket, entropy, request, effects);
                refused = effects.answers.iter().any(|(answered, error, _)| *answered == ticket && is_fencing(*error));
            },
        );
        if self.is_checked && refused && kind != "LeaveGroup" {
            if self.strikes(Fault::RefusalWithEffect, ticket) {
                self.pass(500);
            }
            let after = GROUPS.map(|group| self.coordinator.digest(group));
            assert_eq!(digests, after, "S14: a fenced request changes nothing");
        }
        if self.strikes(Fault::EarlyAnswer, ticket) && kind == "OffsetCommit" && self.open.contains_key(&ticket) {
            self.answered(ticket, ErrorCode::None, Some(Success::Commit));
        }
        let has_begun = self.open.get(&ticket).is_some_and(|open| open.append.is_some());
        if self.fault == Some(Fault::EarlyDelete) && kind == "DeleteGroup" && has_begun {
            self.answered(ticket, ErrorCode::None, Some(Success::Delete));
        }
    }

    fn tick(&mut self) {
        let by_ms = self.dice.pick(&[0, 1, 50, 300, 300, 1_000, 2_000, 6_000]);
        self.pass(by_ms);
    }

    fn pass(&mut self, by_ms: u64) {
        self.now.mono_ms += by_ms;
        self.now.wall_ms += by_ms as i64;
        let now = self.now;
        for look in 0.. {
            let next = self.coordinator.next_deadline();
            let mut silent = true;
            self.event(
                || format!("tick {by_ms}"),
                |coordinator, effects| {
                    coordinator.advance(now, effects);
                    silent = effects.answers.is_empty() && effects.appends.is_empty();
                },
            );
            let is_due = next.is_some_and(|next| next <= now.mono_ms);
            assert!(silent || is_due || !self.is_checked, "L7: next_deadline was late");
            if !is_due {
                return;
            }
            assert!(look < LOOKS_MAX, "L7: looks again and again at {}", now.mono_ms);
        }
    }
}

/// Refusals that must leave no trace.
fn is_fencing(error: ErrorCode) -> bool {
    matches!(error, ErrorCode::IllegalGeneration | ErrorCode::FencedInstanceId | ErrorCode::UnknownMemberId)
}

/// Small limits and short times, another mix in every world.
fn config(seed: u64) -> Config {
    let of = |shift: u32, choices: &[u32]| choices[(seed >> shift) as usize % choices.len()];
    Config {
        group_min_session_timeout_ms: 1,
        group_initial_rebalance_delay_ms: of(1, &[0, 100, 500]),
        group_max_size: of(0, &[3, 6]),
        group_max_pending_members: 3,
        offsets_commit_timeout_ms: of(2, &[5_000, 500]),
        rebalance_history: 4,
        offsets_retention_minutes: 1,
        offsets_retention_check_interval_ms: u64::from(of(3, &[10_000, 70_000])),
        ..Config::default()
    }
}
