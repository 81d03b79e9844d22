//! Answers and appends of the coordinator as frozen Python classes. The table in `rota_core::messages` generates them,
//! except for those that Python shows flat: one entry per partition instead of per topic.

use pyo3::prelude::*;
use rota_core::{AppendId, ErrorCode, Record, Sink, Ticket, response};

use crate::{
    errors::Code,
    messages::{python_type, to_python},
    plain::plain,
    records::PyRecord,
    values::{Tuple, union},
};

/// The class of one answer: the request's ticket, then the fields of the table.
macro_rules! answer_class {
    // Written below.
    ($(#[$doc:meta])* ErrorCode) => {};
    ($(#[$doc:meta])* CommitAnswer $fields:tt) => {};
    ($(#[$doc:meta])* FetchAnswer $fields:tt) => {};
    ($(#[$doc:meta])* OffsetDeleteAnswer $fields:tt) => {};
    ($(#[$doc:meta])* $answer:ident {
        $($(#[$field_doc:meta])* $field:ident: $kind:tt $(or $null:ident)?,)+
    }) => {
        plain! {
            $(#[$doc])*
            $answer {
                /// The request's ticket.
                ticket: u64,
                $($(#[$field_doc])* $field: python_type!($kind $(or $null)?),)+
            }
        }

        impl $answer {
            fn new_from(ticket: u64, answer: &response::$answer<'_>) -> Self {
                $answer { ticket, $($field: to_python!(answer.$field => $kind $(or $null)?),)+ }
            }
        }
    };
}

/// Defines the class of an element.
macro_rules! element_class {
    ($(#[$doc:meta])* $element:ident {
        $($(#[$field_doc:meta])* $field:ident: $kind:tt $(or $null:ident)?,)+
    }) => {
        plain! {
            $(#[$doc])*
            $element { $($(#[$field_doc])* $field: python_type!($kind $(or $null)?),)+ }
        }

        impl From<&response::$element<'_>> for $element {
            fn from(element: &response::$element<'_>) -> Self {
                $element { $($field: to_python!(element.$field => $kind $(or $null)?),)+ }
            }
        }
    };
}

/// Names the class of an answer by its name in the table.
macro_rules! class {
    (ErrorCode) => {
        HeartbeatAnswer
    };
    ($answer:ident) => {
        $answer
    };
}

macro_rules! answer_classes {
    (
        answers { $($(#[$doc:meta])* $api:ident => $answer:ident $({ $($fields:tt)+ })?)+ }
        elements { $($(#[$element_doc:meta])* $element:ident $element_fields:tt)+ }
    ) => {
        $(answer_class! { $(#[$doc])* $answer $({ $($fields)+ })? })+
        $(element_class! { $(#[$element_doc])* $element $element_fields })+

        /// One effect of a step.
        #[derive(IntoPyObject)]
        pub enum Effect {
            $($api(class!($answer)),)+
            Append(Append),
        }

        fn effect(ticket: u64, answer: &response::Answer<'_>) -> Effect {
            match answer {
                $(response::Answer::$api(answer) => Effect::$api(<class!($answer)>::new_from(ticket, answer)),)+
            }
        }

        /// Adds the classes to the module.
        pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
            $(module.add_class::<class!($answer)>()?;)+
            $(module.add_class::<$element>()?;)+
            module.add_class::<CommittedPartition>()?;
            module.add_class::<FetchedOffset>()?;
            module.add_class::<DeletedPartition>()?;
            module.add_class::<Append>()?;
            let py = module.py();
            let answers = union(&[$(py.get_type::<class!($answer)>()),+])?;
            module.add("Effect", answers.bitor(py.get_type::<Append>())?)?;
            module.add("Answer", answers)
        }
    };
}
rota_core::answers!(answer_classes);

plain! {
    /// Answer to `Heartbeat` or `WriteTxnMarker`.
    HeartbeatAnswer {
        /// The request's ticket.
        ticket: u64,
        /// `ErrorCode.NONE` on success.
        error: Code,
    }
}

impl HeartbeatAnswer {
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "as the other answers, which come from one macro")]
    fn new_from(ticket: u64, error: &ErrorCode) -> HeartbeatAnswer {
        HeartbeatAnswer { ticket, error: Code(*error) }
    }
}

plain! {
    /// Answer to `OffsetCommit`.
    CommitAnswer {
        /// The request's ticket.
        ticket: u64,
        /// Partitions in request order.
        partitions: Tuple<CommittedPartition>,
    }
    methods {
        /// The first error of a partition that is not `ErrorCode.NONE`, else `ErrorCode.NONE`.
        #[getter]
        fn error(&self) -> Code {
            let mut errors = self.partitions.0.iter().map(|partition| partition.error);
            errors.find(|error| error.0 != ErrorCode::None).unwrap_or(Code(ErrorCode::None))
        }
    }
}

impl CommitAnswer {
    fn new_from(ticket: u64, answer: &response::CommitAnswer<'_>) -> CommitAnswer {
        let mut partitions = Tuple::default();
        for response::CommittedTopic { name, topic_id, partitions: results } in answer.topics {
            partitions.0.extend(results.iter().map(|&(partition, error)| CommittedPartition {
                topic: name.to_string(),
                partition,
                error: Code(error),
                topic_id: *topic_id,
            }));
        }
        CommitAnswer { ticket, partitions }
    }
}

plain! {
    /// One partition's result of a commit.
    CommittedPartition {
        /// The topic name.
        topic: String,
        /// The partition index.
        partition: i32,
        /// `ErrorCode.NONE` if it was stored.
        error: Code,
        /// The topic id, 0 if unknown.
        topic_id: u128 = 0,
    }
    shown "(topic, partition, error, topic_id=0)"
}

plain! {
    /// Answer to `OffsetFetch`.
    FetchAnswer {
        /// The request's ticket.
        ticket: u64,
        /// Error of the group.
        error: Code,
        /// The group of the request.
        group_id: String,
        /// In request order, or by topic and partition; empty on an error.
        partitions: Tuple<FetchedOffset>,
    }
}

impl FetchAnswer {
    fn new_from(ticket: u64, answer: &response::FetchAnswer<'_>) -> FetchAnswer {
        let response::FetchAnswer { error, group_id, topics } = *answer;
        let mut partitions = Tuple::default();
        for response::FetchedTopic { name, partitions: fetched } in topics {
            partitions.0.extend(fetched.iter().map(|fetched| FetchedOffset::new_from(name, fetched)));
        }
        FetchAnswer { ticket, error: Code(error), group_id: group_id.to_owned(), partitions }
    }
}

plain! {
    /// One committed offset; -1, -1, "" when there is none.
    FetchedOffset {
        /// The topic name.
        topic: String,
        /// The partition index.
        partition: i32,
        /// The offset; -1: none.
        offset: i64,
        /// The leader epoch; -1: none.
        leader_epoch: i32,
        /// Metadata as committed.
        metadata: String,
        /// The reason why this partition cannot be read, or `ErrorCode.NONE`.
        error: Code,
        /// The topic id of the commit, 0 if none.
        topic_id: u128 = 0,
    }
    shown "(topic, partition, offset, leader_epoch, metadata, error, topic_id=0)"
}

impl FetchedOffset {
    fn new_from(topic: &str, fetched: &response::FetchedOffset<'_>) -> FetchedOffset {
        let response::FetchedOffset { index, offset, leader_epoch, metadata, topic_id, error } = *fetched;
        let (topic, metadata) = (topic.to_owned(), metadata.to_owned());
        FetchedOffset { topic, partition: index, offset, leader_epoch, metadata, error: Code(error), topic_id }
    }
}

plain! {
    /// Answer to `OffsetDelete`.
    OffsetDeleteAnswer {
        /// The request's ticket.
        ticket: u64,
        /// Error of the group.
        error: Code,
        /// In request order; empty on an error of the group.
        partitions: Tuple<DeletedPartition>,
    }
}

impl OffsetDeleteAnswer {
    fn new_from(ticket: u64, answer: &response::OffsetDeleteAnswer<'_>) -> OffsetDeleteAnswer {
        let response::OffsetDeleteAnswer { error, topics } = *answer;
        let mut partitions = Tuple::default();
        for response::OffsetDeletedTopic { name, partitions: results } in topics {
            partitions.0.extend(results.iter().map(|&(partition, error)| DeletedPartition {
                topic: name.to_string(),
                partition,
                error: Code(error),
            }));
        }
        OffsetDeleteAnswer { ticket, error: Code(error), partitions }
    }
}

plain! {
    /// One partition's result of an `OffsetDelete`.
    DeletedPartition {
        /// The topic name.
        topic: String,
        /// The partition index.
        partition: i32,
        /// `ErrorCode.NONE`, also if no offset was stored.
        error: Code,
    }
}

plain! {
    /// Records to append as one batch; report the result with `Coordinator.appended`.
    "rota.coordinator" Append {
        /// The append's id.
        append_id: u64,
        /// The records in order.
        records: Tuple<PyRecord>,
    }
}

/// Collects the effects of one step in order.
#[derive(Default)]
pub struct Effects(pub Vec<Effect>);

impl Sink for Effects {
    fn answer(&mut self, ticket: Ticket, answer: response::Answer<'_>) {
        self.0.push(effect(ticket.0, &answer));
    }

    // The records of a transaction's batch are appended like others: a marker has none.
    fn append(&mut self, append_id: AppendId, records: &[Record]) {
        let records = records.iter().map(PyRecord::from).collect();
        self.0.push(Effect::Append(Append { append_id: append_id.0, records }));
    }
}
