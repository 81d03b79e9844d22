//! The time of long passes of a loop, by step of the coordinator.

use std::time::Duration;

/// Duration from which a pass counts as long. Heartbeats that are due in it wait.
pub const LONG: Duration = Duration::from_micros(100);

/// A step of the coordinator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// An advance of time.
    Advance,
    /// A join.
    Join,
    /// A sync.
    Sync,
    /// A leave.
    Leave,
    /// A heartbeat that cannot take the fast path.
    Heartbeat,
    /// A completed append.
    Appended,
}

/// All steps with their names.
pub const STEPS: [(Step, &str); 6] = [
    (Step::Advance, "advance"),
    (Step::Join, "join"),
    (Step::Sync, "sync"),
    (Step::Leave, "leave"),
    (Step::Heartbeat, "heartbeat"),
    (Step::Appended, "appended"),
];

/// The long passes of a loop.
#[derive(Clone, Debug, Default)]
pub struct Passes {
    /// Number of long passes.
    pub long: u64,
    /// Their total duration.
    pub took: Duration,
    /// The longest pass.
    pub longest: Duration,
    /// Time of each step in long passes.
    pub in_steps: [Duration; STEPS.len()],
    /// The longest execution of each step, in any pass.
    pub longest_step: [Duration; STEPS.len()],
    pass: [Duration; STEPS.len()],
}

impl Passes {
    /// Adds a step of the current pass.
    pub fn step(&mut self, step: Step, took: Duration) {
        let at = step as usize;
        self.pass[at] += took;
        self.longest_step[at] = self.longest_step[at].max(took);
    }

    /// Ends the current pass.
    pub fn end(&mut self, took: Duration) {
        let pass = std::mem::take(&mut self.pass);
        if took < LONG {
            return;
        }
        self.long += 1;
        self.took += took;
        self.longest = self.longest.max(took);
        for (sum, took) in self.in_steps.iter_mut().zip(pass) {
            *sum += took;
        }
    }

    /// Returns the time of all steps in long passes.
    pub fn in_coordinator(&self) -> Duration {
        self.in_steps.iter().sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_long_passes_count_and_the_longest_step_of_any() {
        let [short, long] = [LONG / 2, LONG];
        let mut passes = Passes::default();
        passes.step(Step::Sync, short);
        passes.end(short);
        passes.step(Step::Join, long / 4);
        passes.step(Step::Join, long / 4);
        passes.step(Step::Appended, long / 8);
        passes.end(long);
        assert_eq!((passes.long, passes.took, passes.longest), (1, long, long));
        assert_eq!(passes.in_coordinator(), long / 2 + long / 8, "the sync was in a short pass");
        assert_eq!(passes.longest_step[Step::Sync as usize], short);
        assert_eq!(passes.longest_step[Step::Join as usize], long / 4);
    }

    #[test]
    fn steps_are_named_in_their_order() {
        assert!(STEPS.iter().enumerate().all(|(at, (step, _))| *step as usize == at));
    }
}
