//! Answers of the coordinator. They borrow from its state, and the server encodes them into a connection's buffer.
//! [`messages`](crate::messages) describes their fields; this module has the elements that own their lists.

use serde::{Deserialize, Serialize};

use crate::{error::ErrorCode, messages::borrowed_struct};

/// The answer type of a request: an [`ErrorCode`], or a borrowed struct.
macro_rules! answer_type {
    ($a:lifetime ErrorCode) => { ErrorCode };
    ($a:lifetime $answer:ident) => { $answer<$a> };
}

macro_rules! borrowed_answers {
    (
        answers { $($(#[$doc:meta])* $api:ident => $answer:ident $({ $($fields:tt)+ })?)+ }
        elements { $($(#[$element_doc:meta])* $element:ident $element_fields:tt)+ }
    ) => {
        /// The answer to one request.
        #[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
        pub enum Answer<'a> {
            $($(#[$doc])* $api(answer_type!('a $answer)),)+
        }

        impl Answer<'_> {
            /// Returns the name of the request, such as `JoinGroup`.
            pub fn name(&self) -> &'static str {
                match self {
                    $(Answer::$api(_) => stringify!($api),)+
                }
            }
        }

        $(borrowed_struct! { $(#[$doc])* $answer $({ $($fields)+ })? })+
        $(borrowed_struct! { $(#[$element_doc])* $element $element_fields })+
    };
}
crate::answers!(borrowed_answers);

/// The results of one topic of a commit.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct CommittedTopic {
    /// The topic's name.
    pub name: Box<str>,
    /// The topic's id, 0 if unknown.
    pub topic_id: u128,
    /// (partition, code).
    pub partitions: Vec<(i32, ErrorCode)>,
}

/// The offsets of one topic.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct FetchedTopic<'a> {
    /// The topic's name.
    pub name: &'a str,
    /// In request order; sorted by partition if all topics were requested.
    #[serde(borrow)]
    pub partitions: Vec<FetchedOffset<'a>>,
}

/// One committed offset; -1, -1, "" when there is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct FetchedOffset<'a> {
    /// The partition index.
    pub index: i32,
    /// -1: none.
    pub offset: i64,
    /// -1: none.
    pub leader_epoch: i32,
    /// Metadata as committed.
    pub metadata: &'a str,
    /// The topic id that the commit carried, 0 if none.
    pub topic_id: u128,
    /// `None`, or the reason why this partition cannot be read.
    pub error: ErrorCode,
}

/// The results of one topic of an `OffsetDelete`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct OffsetDeletedTopic {
    /// The topic's name.
    pub name: Box<str>,
    /// (partition, code).
    pub partitions: Vec<(i32, ErrorCode)>,
}
