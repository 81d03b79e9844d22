//! What can happen to a group, its clients and its log.

use rota_core::ErrorCode;

use super::client::Speaks;

/// What becomes of a request, unless appends are held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It is answered.
    Answered,
    /// It is durable, and its answer is lost.
    Lost,
    /// The log refuses its records.
    Refused(ErrorCode),
}

/// What a client asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ask {
    /// The client gives everything up and joins with epoch 0, to so many topics.
    Join(usize),
    /// A heartbeat that reports nothing.
    Beat,
    /// A heartbeat that reports what the client owns.
    Report,
    /// A heartbeat with all fields, as a client sends it that got no answer to the one before.
    Full,
    /// The client subscribes to so many topics from now on, and reports what it owns.
    Subscribe(usize),
    /// The client leaves for good.
    Leave,
    /// A static client leaves for a while.
    LeaveStatic,
    /// `JoinGroup`. An eager client gives everything up before.
    ClassicJoin,
    /// `SyncGroup`, of the leader with a plan.
    ClassicSync,
    /// A classic heartbeat.
    ClassicBeat,
    /// `LeaveGroup`
    ClassicLeave,
}

impl Ask {
    /// What the table of cells calls it.
    pub fn kind(self) -> &'static str {
        match self {
            Ask::Join(_) => "Join",
            Ask::Beat => "Beat",
            Ask::Report => "Report",
            Ask::Full => "Full",
            Ask::Subscribe(_) => "Subscribe",
            Ask::Leave => "Leave",
            Ask::LeaveStatic => "LeaveStatic",
            Ask::ClassicJoin => "JoinGroup",
            Ask::ClassicSync => "SyncGroup",
            Ask::ClassicBeat => "Heartbeat",
            Ask::ClassicLeave => "LeaveGroup",
        }
    }

    /// The protocol in which a client asks this.
    pub fn speaks(self) -> Speaks {
        match self {
            Ask::ClassicJoin | Ask::ClassicSync | Ask::ClassicBeat | Ask::ClassicLeave => Speaks::Classic,
            _ => Speaks::Consumer,
        }
    }
}

/// A request that changes nothing, so that no state follows from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Probe {
    /// A heartbeat of an epoch to come.
    Ahead,
    /// A heartbeat of the epoch before the member's, which reports nothing.
    Behind,
    /// A heartbeat of an id that is no member's.
    Stranger,
    /// A heartbeat with the instance id of another member, or of none.
    OtherInstance,
    /// A classic heartbeat of the member's id and a generation to come.
    ClassicAhead,
    /// A commit of this partition of the first topic with the epoch that the client knows.
    Commit(i32),
    /// A commit with an epoch to come.
    CommitAhead,
    /// A commit without a member.
    CommitSimple,
}

impl Probe {
    /// What the table of cells calls it: the request, and whose it is.
    pub fn cell(self) -> (&'static str, &'static str) {
        match self {
            Probe::Ahead => ("Beat", "ahead"),
            Probe::Behind => ("Beat", "one behind"),
            Probe::Stranger => ("Beat", "stranger"),
            Probe::OtherInstance => ("Beat", "other instance"),
            Probe::ClassicAhead => ("Heartbeat", "ahead"),
            Probe::Commit(_) => ("Commit", "known"),
            Probe::CommitAhead => ("Commit", "ahead"),
            Probe::CommitSimple => ("Commit", "without id"),
        }
    }
}

/// What happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A client asks.
    Ask(usize, Ask, Fate),
    /// Another process takes the place of a client, in this protocol. It has not joined yet.
    Restart(usize, Speaks),
    /// A client carries its assignment out.
    Apply(usize),
    /// A client waits no longer for its answer.
    GiveUp(usize),
    /// A client, or a sender without a membership, asks what is refused or changes no membership.
    Probe(usize, Probe),
    /// The deadline in this place of the order of arming fires: its name.
    Fire(usize, &'static str),
    /// The oldest append ends.
    End(Option<ErrorCode>),
    /// The coordinator is lost, and another one loads the log, which has the append in flight or has it not.
    Crash(bool),
    /// The last topic is created.
    Create,
    /// The last topic is deleted.
    Delete,
}
