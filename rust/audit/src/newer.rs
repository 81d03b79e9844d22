//! The rows of a record of a consumer group (docs/consumer-protocol.md §14). A topic is shown by its id, as 32 hexadecimal
//! digits.

use std::fmt::Write;

use rota_core::records::{ConsumerRecord, CurrentValue, EpochedIndexes, TopicIndexes};
use rota_promises::{Columns, Row};

/// Names of the member states by their codes.
const STATES: [&str; 3] = ["STABLE", "UNREVOKED_PARTITIONS", "UNRELEASED_PARTITIONS"];

/// Adds the rows of a record; `base` has its position.
pub(crate) fn consumer_rows(base: Row<'_>, group_id: &str, about: &ConsumerRecord, columns: &mut Columns) {
    let (kind, member) = match about {
        ConsumerRecord::Epoch(_) => ("consumer_group", None),
        ConsumerRecord::Metadata(_) => ("consumer_topics", None),
        ConsumerRecord::Member(member, _) => ("consumer_member", Some(&**member)),
        ConsumerRecord::TargetEpoch(_) => ("consumer_target_epoch", None),
        ConsumerRecord::Target(member, _) => ("consumer_target", Some(&**member)),
        ConsumerRecord::Current(member, _) => ("consumer_current", Some(&**member)),
        ConsumerRecord::Pattern(..) => ("consumer_regex", None),
    };
    let head = Row { kind: Some(kind), group: Some(group_id), member, ..base };
    let mut rows = Rows { head, part: base.part.unwrap_or_default(), topic: String::new(), columns };
    match about {
        ConsumerRecord::Epoch(Some(value)) => rows.push(Row { generation: Some(value.epoch), ..head }),
        ConsumerRecord::TargetEpoch(Some(value)) => rows.push(Row { generation: Some(value.epoch), ..head }),
        ConsumerRecord::Member(_, Some(value)) => rows.push(Row {
            instance: value.instance_id.as_deref(),
            client: Some(&value.client_id),
            protocol: value.server_assignor.as_deref(),
            ..head
        }),
        ConsumerRecord::Target(_, Some(topics)) => rows.target(topics),
        ConsumerRecord::Current(_, Some(value)) => rows.current(value),
        ConsumerRecord::Metadata(Some(_)) | ConsumerRecord::Pattern(_, Some(_)) => rows.push(head),
        _ => rows.push(Row { note: Some("removed"), ..head }),
    }
}

/// The rows of a record under construction.
struct Rows<'a, 'c> {
    head: Row<'a>,
    part: i32,
    /// The id of the topic in hand.
    topic: String,
    columns: &'c mut Columns,
}

impl Rows<'_, '_> {
    fn push(&mut self, row: Row<'_>) {
        self.columns.push(&Row { part: Some(self.part), ..row });
        self.part += 1;
    }

    fn target(&mut self, topics: &[TopicIndexes]) {
        self.push(self.head);
        for TopicIndexes { topic_id, partitions } in topics {
            for index in partitions {
                self.partition("consumer_target_partition", *topic_id, *index, None);
            }
        }
    }

    fn current(&mut self, value: &CurrentValue) {
        let state = usize::try_from(value.state).ok().and_then(|state| STATES.get(state)).unwrap_or(&"UNKNOWN");
        self.push(Row { generation: Some(value.epoch), note: Some(state), ..self.head });
        for (kind, held) in [("consumer_assigned", &value.assigned), ("consumer_pending", &value.pending_revocation)] {
            for EpochedIndexes { topic_id, partitions, epochs } in held {
                for (at, index) in partitions.iter().enumerate() {
                    let epoch = epochs.get(at).copied().unwrap_or(value.epoch);
                    self.partition(kind, *topic_id, *index, Some(epoch));
                }
            }
        }
    }

    fn partition(&mut self, kind: &str, topic_id: u128, index: i32, generation: Option<i32>) {
        let mut topic = std::mem::take(&mut self.topic);
        topic.clear();
        write!(topic, "{topic_id:032x}").expect("a string takes it");
        let place = Row { topic: Some(&topic), topic_partition: Some(index), generation, ..self.head };
        self.push(Row { kind: Some(kind), ..place });
        self.topic = topic;
    }
}
