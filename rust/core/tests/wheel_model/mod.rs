//! Random histories of a wheel and the sorted list that says what they must do.
use proptest::prelude::*;
use rota_core::wheel::TimerId;

/// What a history drives: the wheel, or a wheel with a planted bug.
pub trait Subject {
    fn arm(&mut self, deadline_ms: u64, name: u32) -> TimerId;
    fn rearm(&mut self, id: TimerId, deadline_ms: u64) -> bool;
    fn cancel(&mut self, id: TimerId) -> Option<u32>;
    fn deadline(&self, id: TimerId) -> Option<u64>;
    fn advance(&mut self, now_ms: u64);
    fn take(&mut self) -> Option<(TimerId, u64, u32)>;
    fn next_deadline(&self) -> Option<u64>;
    fn len(&self) -> usize;
    /// Serialises the subject and goes on with what comes back.
    fn store(&mut self);
}

/// Ways to be wrong that the comparison must notice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Planted {
    FiresLate,
    FiresEarly,
    EarlierRearmIgnored,
    CancelForgotten,
    TiesReversed,
    RearmedFiresAtOnce,
    NextDeadlineLate,
    NextDeadlineStuck,
}

/// An instant seen from the wheel's time.
#[derive(Clone, Copy, Debug)]
pub enum When {
    In(u64),
    Ago(u64),
    At(u64),
}

impl When {
    fn from(self, now_ms: u64) -> u64 {
        match self {
            Self::In(span_ms) => now_ms.saturating_add(span_ms),
            Self::Ago(span_ms) => now_ms.saturating_sub(span_ms),
            Self::At(time_ms) => time_ms,
        }
    }
}

/// A change of the entries; `which` chooses among those armed (or ever armed, for the dead).
#[derive(Clone, Copy, Debug)]
pub enum Change {
    Arm(When),
    Rearm { which: u32, to: When },
    Nudge { which: u32, by_ms: i64 },
    Cancel { which: u32 },
    TouchDead { which: u32 },
}

#[derive(Clone, Debug)]
pub enum Step {
    Change(Change),
    /// Moves time and takes what is due; before each taking but the first, the next of `meanwhile` happens.
    Advance {
        to: When,
        meanwhile: Vec<Change>,
    },
    /// Moves time to `next_deadline`.
    AdvanceToNext,
    /// Moves time and takes at most one of what is due.
    AdvanceAndAbandon(When),
    Store,
}

pub fn operations_in(history: &[Step]) -> u64 {
    let meanwhile = |step: &Step| if let Step::Advance { meanwhile, .. } = step { meanwhile.len() } else { 0 };
    history.iter().map(|step| 1 + meanwhile(step) as u64).sum()
}

fn deadlines() -> impl Strategy<Value = When> {
    prop_oneof![
        4 => (0_u64..70).prop_map(When::In),
        6 => (0_u64..10_000).prop_map(When::In),
        2 => (0_u32..64, 0_u64..3).prop_map(|(bit, off)| When::In((1_u64 << bit) - 1 + off)),
        1 => (0_u64..10_000).prop_map(When::Ago),
        1 => Just(When::At(u64::MAX)),
        1 => any::<u64>().prop_map(When::At),
    ]
}

fn jumps() -> impl Strategy<Value = When> {
    prop_oneof![
        60 => (0_u64..4).prop_map(When::In),
        60 => (0_u64..200).prop_map(When::In),
        20 => (0_u64..10_000).prop_map(When::In),
        4 => (0_u32..40).prop_map(|bit| When::In(1 << bit)),
        1 => (40_u32..62).prop_map(|bit| When::In(1 << bit)),
        4 => (0_u64..100).prop_map(When::Ago),
    ]
}

fn changes() -> impl Strategy<Value = Change> {
    prop_oneof![
        6 => deadlines().prop_map(Change::Arm),
        4 => (any::<u32>(), deadlines()).prop_map(|(which, to)| Change::Rearm { which, to }),
        4 => (any::<u32>(), -3_000_i64..3_000).prop_map(|(which, by_ms)| Change::Nudge { which, by_ms }),
        2 => any::<u32>().prop_map(|which| Change::Cancel { which }),
        1 => any::<u32>().prop_map(|which| Change::TouchDead { which }),
    ]
}

fn steps() -> impl Strategy<Value = Step> {
    prop_oneof![
        200 => changes().prop_map(Step::Change),
        40 => (jumps(), prop::collection::vec(changes(), 0..3))
            .prop_map(|(to, meanwhile)| Step::Advance { to, meanwhile }),
        20 => Just(Step::AdvanceToNext),
        5 => jumps().prop_map(Step::AdvanceAndAbandon),
        1 => Just(Step::Store),
    ]
}

/// A starting time and about `length` steps.
pub fn arbitrary_history(length: usize) -> impl Strategy<Value = (u64, Vec<Step>)> {
    let starts = prop_oneof![
        4 => Just(0),
        4 => 0_u64..100_000,
        2 => Just(1_700_000_000_000),
        1 => (0_u32..64).prop_map(|bit| (1_u64 << bit) - 1),
        1 => (0_u64..100_000).prop_map(|span_ms| u64::MAX - span_ms),
    ];
    (starts, prop::collection::vec(steps(), length..=length + length / 10))
}

/// The sorted list beside the subject.
struct Run<S> {
    subject: S,
    now_ms: u64,
    armings: u64,
    /// (deadline, arming number, name) of what is armed, sorted.
    armed: Vec<(u64, u64, u32)>,
    /// The id of each name ever armed.
    ids: Vec<TimerId>,
}

/// Drives `subject` through `history`, then to its last deadline by `next_deadline` alone.
pub fn run(subject: impl Subject, start_ms: u64, history: &[Step]) -> Result<(), String> {
    let mut run = Run { subject, now_ms: start_ms, armings: 0, armed: Vec::new(), ids: Vec::new() };
    for (number, step) in history.iter().enumerate() {
        run.step(step)
            .and_then(|()| run.agree())
            .map_err(|complaint| format!("step {number} {step:?}: {complaint}"))?;
    }
    run.chase().map_err(|complaint| format!("while chasing next_deadline: {complaint}"))
}

macro_rules! ensure {
    ($condition:expr, $($complaint:tt)*) => {
        if !$condition {
            return Err(format!($($complaint)*));
        }
    };
}

impl<S: Subject> Run<S> {
    fn step(&mut self, step: &Step) -> Result<(), String> {
        match step {
            Step::Change(change) => self.change(*change),
            Step::Advance { to, meanwhile } => self.advance(to.from(self.now_ms), meanwhile, usize::MAX),
            Step::AdvanceToNext => {
                self.subject.next_deadline().map_or(Ok(()), |next_ms| self.advance(next_ms, &[], usize::MAX))
            }
            Step::AdvanceAndAbandon(to) => self.advance(to.from(self.now_ms), &[], 1),
            Step::Store => {
                self.subject.store();
                Ok(())
            }
        }
    }

    fn change(&mut self, change: Change) -> Result<(), String> {
        match change {
            Change::Arm(when) => {
                let (deadline_ms, name) = (when.from(self.now_ms), self.ids.len() as u32);
                let id = self.subject.arm(deadline_ms, name);
                self.ids.push(id);
                self.insert(deadline_ms, name);
            }
            Change::Rearm { which, to } => {
                if let Some((_, name)) = self.pick(which) {
                    self.rearm(name, to.from(self.now_ms))?;
                }
            }
            Change::Nudge { which, by_ms } => {
                if let Some((deadline_ms, name)) = self.pick(which) {
                    self.rearm(name, deadline_ms.saturating_add_signed(by_ms))?;
                }
            }
            Change::Cancel { which } => {
                if let Some((_, name)) = self.pick(which) {
                    self.remove(name);
                    let cancelled = self.subject.cancel(self.ids[name as usize]);
                    ensure!(cancelled == Some(name), "cancelling {name} returned {cancelled:?}");
                }
            }
            Change::TouchDead { which } => {
                let name = which.checked_rem(self.ids.len() as u32);
                if let Some(name) = name.filter(|name| self.armed.iter().all(|(_, _, armed)| armed != name)) {
                    let id = self.ids[name as usize];
                    ensure!(!self.subject.rearm(id, self.now_ms), "{name} is dead but was re-armed");
                    ensure!(self.subject.deadline(id).is_none(), "{name} is dead but has a deadline");
                    ensure!(self.subject.cancel(id).is_none(), "{name} is dead but was cancelled");
                }
            }
        }
        Ok(())
    }

    fn pick(&self, which: u32) -> Option<(u64, u32)> {
        let place = (which as usize).checked_rem(self.armed.len())?;
        let (deadline_ms, _, name) = self.armed[place];
        Some((deadline_ms, name))
    }

    fn insert(&mut self, deadline_ms: u64, name: u32) {
        self.armings += 1;
        let entry = (deadline_ms, self.armings, name);
        let place = self.armed.partition_point(|other| *other < entry);
        self.armed.insert(place, entry);
    }

    fn remove(&mut self, name: u32) {
        self.armed.retain(|(_, _, armed)| *armed != name);
    }

    fn rearm(&mut self, name: u32, deadline_ms: u64) -> Result<(), String> {
        self.remove(name);
        self.insert(deadline_ms, name);
        let id = self.ids[name as usize];
        ensure!(self.subject.rearm(id, deadline_ms), "{name} is armed but could not be re-armed");
        let armed_for = self.subject.deadline(id);
        ensure!(armed_for == Some(deadline_ms), "{name} is armed for {armed_for:?} instead of {deadline_ms}");
        Ok(())
    }

    fn advance(&mut self, now_ms: u64, meanwhile: &[Change], takings: usize) -> Result<(), String> {
        self.now_ms = self.now_ms.max(now_ms);
        self.subject.advance(now_ms);
        let due_to = self.armed.partition_point(|(deadline_ms, _, _)| *deadline_ms <= self.now_ms);
        let due: Vec<_> = self.armed[..due_to].to_vec();
        let mut expected = due.iter();
        let mut meanwhile = meanwhile.iter();
        for _ in 0..takings {
            let expected = expected.find(|entry| self.armed.binary_search(entry).is_ok());
            let taken = self.subject.take();
            match (expected, taken) {
                (None, None) => break,
                (Some(entry), None) => return Err(format!("late: {entry:?} is due at {}", self.now_ms)),
                (_, Some((id, deadline_ms, name))) => {
                    ensure!(deadline_ms <= self.now_ms, "early: {name} for {deadline_ms} fired at {}", self.now_ms);
                    let Some(&(expected_ms, _, expected_name)) = expected else {
                        return Err(format!("{name} for {deadline_ms} fired, but waits for the next advance"));
                    };
                    ensure!(
                        (deadline_ms, name) == (expected_ms, expected_name),
                        "{name} for {deadline_ms} fired before {expected_name} for {expected_ms}"
                    );
                    ensure!(id == self.ids[name as usize], "{name} fired under the id of another");
                    self.remove(name);
                }
            }
            if let Some(change) = meanwhile.next() {
                self.change(*change)?;
            }
        }
        Ok(())
    }

    /// What holds between any two steps.
    fn agree(&self) -> Result<(), String> {
        ensure!(self.subject.len() == self.armed.len(), "{} armed, not {}", self.subject.len(), self.armed.len());
        match (self.armed.first(), self.subject.next_deadline()) {
            (None, None) => Ok(()),
            (Some(&(earliest_ms, _, _)), Some(next_ms)) if next_ms <= earliest_ms => Ok(()),
            (first, next_ms) => Err(format!("next_deadline is {next_ms:?}, the first of the list {first:?}")),
        }
    }

    /// Follows `next_deadline`: each entry fires exactly at its deadline, after at most one stop per level and entry.
    fn chase(&mut self) -> Result<(), String> {
        self.advance(self.now_ms, &[], usize::MAX)?;
        let mut stops = 12 * self.armed.len();
        while let Some(next_ms) = self.subject.next_deadline() {
            ensure!(stops > 0, "no progress: {} entries left at {}", self.armed.len(), self.now_ms);
            stops -= 1;
            self.advance(next_ms, &[], usize::MAX)?;
            self.agree()?;
            let earliest_ms = self.armed.first().map_or(u64::MAX, |entry| entry.0);
            ensure!(earliest_ms == u64::MAX || earliest_ms > self.now_ms, "late: {earliest_ms} at {}", self.now_ms);
        }
        ensure!(self.armed.is_empty(), "next_deadline ended with {} armed", self.armed.len());
        Ok(())
    }
}
