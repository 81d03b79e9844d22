//! Bugs planted into a world, to test that its checks find them.

use rota_core::ErrorCode;
use rota_journal::owned::Request;
use rota_member::Answer;

use super::Protocol;

macro_rules! bugs {
    ($($bug:ident = $name:literal, $told:literal;)+) => {
        /// A bug in the world around coordinators and members, or in the answers to them.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Planted {
            $(#[doc = $told] $bug,)+
        }

        impl Planted {
            /// Every bug.
            pub const ALL: &'static [Planted] = &[$(Planted::$bug,)+];

            /// Its name.
            pub fn name(self) -> &'static str {
                match self { $(Planted::$bug => $name,)+ }
            }
        }
    };
}

bugs! {
    LogAcknowledgesEarly = "log-acknowledges-early", "the log says that something is durable before it is";
    LogWithoutFence = "log-without-fence", "the log takes what an old epoch writes";
    LoadForgetsTheLast = "load-forgets-the-last", "a load misses the last two records";
    TimersForgotten = "timers-forgotten", "nothing wakes the coordinators";
    AnswerLost = "answer-lost", "one answer in 97 is never sent, and its connection stays mute";
    LostIsKept = "lost-is-kept", "an application goes on reading what it lost";
    AssignmentOfAnother = "assignment-of-another", "a member gets the answer of another before it";
    RejoinsForNothing = "rejoins-for-nothing", "applications rejoin again and again for 20 s after everything has healed";
    OneTooMany = "one-too-many", "coordinators let one member more in than a group may have";
    FenceUnheard = "fence-unheard", "a fenced member gets the error of an unknown one";
    RevokedIsKept = "revoked-is-kept", "an application goes on reading what it says that it has given up (newer protocol)";
    ReportsNothing = "reports-nothing", "a report of what a member owns arrives empty (newer protocol)";
    EpochAhead = "epoch-ahead", "from epoch 4 on a heartbeat is answered with the next epoch (newer protocol)";
    AssignmentUnheard = "assignment-unheard", "from epoch 4 on no answer has an assignment (newer protocol)";
    LeavesForGood = "leaves-for-good", "a static member that goes away leaves for good (newer protocol)";
    CommitsAhead = "commits-ahead", "a commit arrives with the next epoch (newer protocol)";
    PolicyIgnored = "policy-ignored", "groups change over whatever the policy says (newer protocol)";
    TopicsUnheard = "topics-unheard", "coordinators do not learn that topics grow or are created (newer protocol)";
    SubscriptionUnheard = "subscription-unheard", "a change of a subscription is lost (newer protocol)";
    DeletionUnheard = "deletion-unheard", "coordinators do not learn that topics are deleted (newer protocol)";
    OffsetsStay = "offsets-stay", "the offsets of deleted topics stay (newer protocol)";
    EngineWithoutFence = "engine-without-fence", "the engine takes what an earlier owner writes (--cluster)";
    SessionWithoutEnd = "session-without-end", "a node serves what it owned when its session is over (--cluster)";
    ReleasedIsServed = "released-is-served", "a node serves what it has released (--cluster)";
    UnknownIsWritten = "unknown-is-written", "an append of unknown outcome is taken for written (--cluster)";
    UnknownIsRefused = "unknown-is-refused", "an append of unknown outcome is taken for refused (--cluster)";
    SnapshotSkips = "snapshot-skips", "a snapshot counts for what was written while it was made (--cluster)";
    ChunkWithoutContent = "chunk-without-content", "the engine loses the content of a snapshot's chunk (--cluster)";
    ReturnUnnoticed = "return-unnoticed", "a node does not look at what shows that the engine went back (--cluster)";
    LossUnaccepted = "loss-unaccepted", "a node that has noticed that the engine went back begins anew before an operator has accepted the loss (--cluster)";
    BehindAHole = "behind-a-hole", "the engine takes an append although it has lost the entry before it (--cluster)";
}

impl Planted {
    /// Returns the protocol of the worlds in which it shows.
    pub fn protocol(self) -> Protocol {
        match self {
            Planted::PolicyIgnored => Protocol::Mixed,
            Planted::UnknownIsRefused => Protocol::Consumer,
            _ if self.is_of_engine() => Protocol::Classic,
            _ if self as usize >= Planted::RevokedIsKept as usize => Protocol::Consumer,
            _ => Protocol::Classic,
        }
    }

    /// Whether it shows only where nodes share partitions over an engine.
    pub fn is_of_engine(self) -> bool {
        self as usize >= Planted::EngineWithoutFence as usize
    }

    /// Changes an answer on its way. `last` is the previous assignment.
    pub(super) fn twist(self, answer: Answer, last: &mut Vec<u8>) -> Answer {
        match (self, answer) {
            (Planted::FenceUnheard, Answer::Heartbeat(ErrorCode::FencedInstanceId)) => {
                Answer::Heartbeat(ErrorCode::UnknownMemberId)
            }
            (Planted::AssignmentOfAnother, Answer::SyncGroup { error: ErrorCode::None, protocol_name, assignment }) => {
                let told = if last.is_empty() { assignment.clone() } else { std::mem::take(last) };
                *last = assignment;
                Answer::SyncGroup { error: ErrorCode::None, protocol_name, assignment: told }
            }
            (
                Planted::EpochAhead,
                Answer::ConsumerGroupHeartbeat {
                    error: ErrorCode::None,
                    message,
                    epoch,
                    heartbeat_interval_ms,
                    assignment,
                },
            ) if epoch > 3 => {
                let (error, epoch) = (ErrorCode::None, epoch + 1);
                Answer::ConsumerGroupHeartbeat { error, message, epoch, heartbeat_interval_ms, assignment }
            }
            (
                Planted::AssignmentUnheard,
                Answer::ConsumerGroupHeartbeat {
                    error: ErrorCode::None, message, epoch, heartbeat_interval_ms, ..
                },
            ) if epoch > 3 => {
                let (error, assignment) = (ErrorCode::None, None);
                Answer::ConsumerGroupHeartbeat { error, message, epoch, heartbeat_interval_ms, assignment }
            }
            (_, answer) => answer,
        }
    }

    /// Changes a request on its way to a coordinator.
    pub(super) fn twist_request(self, mut request: Request<'static>) -> Request<'static> {
        match (self, &mut request) {
            (Planted::ReportsNothing, Request::ConsumerGroupHeartbeat(heartbeat)) => {
                if let Some(owned) = &mut heartbeat.topic_partitions {
                    owned.clear();
                }
            }
            (Planted::LeavesForGood, Request::ConsumerGroupHeartbeat(heartbeat)) if heartbeat.member_epoch == -2 => {
                heartbeat.member_epoch = -1;
            }
            (Planted::SubscriptionUnheard, Request::ConsumerGroupHeartbeat(heartbeat))
                if heartbeat.member_epoch > 0 =>
            {
                heartbeat.subscribed_topic_names = None;
                heartbeat.subscribed_topic_regex = None;
            }
            (Planted::CommitsAhead, Request::OffsetCommit(commit)) if commit.generation > 3 => commit.generation += 1,
            _ => {}
        }
        request
    }
}
