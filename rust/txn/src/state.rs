//! The states of a transactional id and the table of their transitions (§2).

/// The state of a transactional id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum State {
    /// Has a producer, and no transaction since `InitProducerId`.
    Empty,
    /// A transaction is open.
    Ongoing,
    /// The transaction is committed; markers are being written.
    PrepareCommit,
    /// The transaction is aborted; markers are being written.
    PrepareAbort,
    /// The last transaction is committed, and every participant has its marker.
    CompleteCommit,
    /// The last transaction is aborted, and every participant has its marker.
    CompleteAbort,
    /// Being forgotten. Never stored: its record is a tombstone.
    Dead,
}

/// The legal transitions, (from, to). Every other one is a bug (§2).
pub const TRANSITIONS: &[(State, State)] = &[
    (State::Empty, State::Empty),
    (State::Empty, State::Ongoing),
    (State::Empty, State::PrepareAbort),
    (State::Empty, State::Dead),
    (State::Ongoing, State::Ongoing),
    (State::Ongoing, State::PrepareCommit),
    (State::Ongoing, State::PrepareAbort),
    (State::PrepareCommit, State::CompleteCommit),
    (State::PrepareAbort, State::CompleteAbort),
    (State::CompleteCommit, State::Empty),
    (State::CompleteCommit, State::Ongoing),
    (State::CompleteCommit, State::PrepareAbort),
    (State::CompleteCommit, State::Dead),
    (State::CompleteAbort, State::Empty),
    (State::CompleteAbort, State::Ongoing),
    (State::CompleteAbort, State::PrepareAbort),
    (State::CompleteAbort, State::Dead),
];

impl State {
    /// All states, in the order of their stored ids.
    pub const ALL: [State; 7] = [
        State::Empty,
        State::Ongoing,
        State::PrepareCommit,
        State::PrepareAbort,
        State::CompleteCommit,
        State::CompleteAbort,
        State::Dead,
    ];

    /// Returns the id in a record.
    pub const fn id(self) -> i8 {
        self as i8
    }

    /// Returns the state with this id in a record.
    pub fn from_id(id: i8) -> Option<State> {
        State::ALL.get(usize::try_from(id).ok()?).copied()
    }

    /// Returns the spelling in `ListTransactions` and `DescribeTransactions`.
    pub const fn name(self) -> &'static str {
        match self {
            State::Empty => "Empty",
            State::Ongoing => "Ongoing",
            State::PrepareCommit => "PrepareCommit",
            State::PrepareAbort => "PrepareAbort",
            State::CompleteCommit => "CompleteCommit",
            State::CompleteAbort => "CompleteAbort",
            State::Dead => "Dead",
        }
    }

    /// Returns the state with this spelling.
    pub fn named(name: &str) -> Option<State> {
        State::ALL.into_iter().find(|state| state.name() == name)
    }

    /// Whether `next` may follow this state.
    pub fn may_become(self, next: State) -> bool {
        TRANSITIONS.contains(&(self, next))
    }

    /// Whether the outcome of a transaction is decided, and not yet in every participant.
    pub const fn is_prepare(self) -> bool {
        matches!(self, State::PrepareCommit | State::PrepareAbort)
    }

    /// Whether a transaction's end is not in every participant.
    pub const fn is_open(self) -> bool {
        matches!(self, State::Ongoing) || self.is_prepare()
    }

    /// Returns the state that begins the end of a transaction.
    pub const fn prepare(is_commit: bool) -> State {
        if is_commit { State::PrepareCommit } else { State::PrepareAbort }
    }

    /// Returns the outcome of the current or last transaction, if it has one: whether it is committed.
    pub const fn is_commit(self) -> Option<bool> {
        match self {
            State::PrepareCommit | State::CompleteCommit => Some(true),
            State::PrepareAbort | State::CompleteAbort => Some(false),
            State::Empty | State::Ongoing | State::Dead => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::State;

    /// The table of §2. A row has the states that may follow, in the order of `ALL`.
    #[test]
    fn a_state_may_become_what_the_table_says_and_nothing_else() {
        let table = ["EO-a--D", "-OPa---", "----C--", "-----B-", "EO-a--D", "EO-a--D", "-------"];
        for (from, row) in State::ALL.into_iter().zip(table) {
            let may: String = State::ALL
                .into_iter()
                .zip("EOPaCBD".chars())
                .map(|(next, letter)| if from.may_become(next) { letter } else { '-' })
                .collect();
            assert_eq!(may, row, "from {from:?}");
        }
    }

    #[test]
    fn ids_and_names_lead_back_to_their_states() {
        for state in State::ALL {
            assert_eq!((State::from_id(state.id()), State::named(state.name())), (Some(state), Some(state)));
        }
        assert_eq!((State::from_id(7), State::from_id(-1), State::named("ongoing")), (None, None, None));
    }
}
