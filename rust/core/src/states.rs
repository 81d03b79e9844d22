//! The five states of a group and the table of its transitions (docs/protocol.md §2).

use serde::{Deserialize, Serialize};

/// A group's state. [`State::name`] is its spelling on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum State {
    /// Has no member; may have offsets.
    Empty,
    /// Collects `JoinGroup` requests.
    PreparingRebalance,
    /// Collects `SyncGroup` requests and waits for the leader's assignment.
    CompletingRebalance,
    /// Every member can fetch its assignment.
    Stable,
    /// Unloaded or deleted; refuses every request.
    Dead,
}

/// The legal transitions, (from, to). Every other one is a bug (S5).
pub const TRANSITIONS: &[(State, State)] = &[
    (State::Empty, State::PreparingRebalance),
    (State::PreparingRebalance, State::CompletingRebalance),
    (State::PreparingRebalance, State::Empty),
    (State::CompletingRebalance, State::Stable),
    (State::CompletingRebalance, State::PreparingRebalance),
    (State::Stable, State::PreparingRebalance),
    (State::Empty, State::Dead),
    (State::PreparingRebalance, State::Dead),
    (State::CompletingRebalance, State::Dead),
    (State::Stable, State::Dead),
    (State::Dead, State::Dead),
];

impl State {
    /// All states, in the order of docs/protocol.md.
    pub const ALL: [State; 5] =
        [State::Empty, State::PreparingRebalance, State::CompletingRebalance, State::Stable, State::Dead];

    /// Returns the spelling on the wire.
    pub const fn name(self) -> &'static str {
        match self {
            State::Empty => "Empty",
            State::PreparingRebalance => "PreparingRebalance",
            State::CompletingRebalance => "CompletingRebalance",
            State::Stable => "Stable",
            State::Dead => "Dead",
        }
    }

    /// Whether `next` may follow this state.
    pub fn may_become(self, next: State) -> bool {
        TRANSITIONS.contains(&(self, next))
    }

    /// Whether a rebalance can begin in this state.
    pub const fn can_rebalance(self) -> bool {
        matches!(self, State::Empty | State::CompletingRebalance | State::Stable)
    }
}

#[cfg(test)]
mod tests {
    use super::State;

    /// The table of §2. A row has the states that may follow, in the order of `ALL`.
    #[test]
    fn a_state_may_become_what_the_table_says_and_nothing_else() {
        let table = ["-P--D", "E-C-D", "-P-SD", "-P--D", "----D"];
        for (from, row) in State::ALL.into_iter().zip(table) {
            let may: String = State::ALL
                .into_iter()
                .map(|next| if from.may_become(next) { next.name().chars().next().expect("a name") } else { '-' })
                .collect();
            assert_eq!(may, row, "from {from:?}");
        }
    }
}
