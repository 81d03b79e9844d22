//! Bugs planted into a world, to test that its checks find them.

use rota_core::ErrorCode;
use rota_member::Answer;

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
}

impl Planted {
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
            (_, answer) => answer,
        }
    }
}
