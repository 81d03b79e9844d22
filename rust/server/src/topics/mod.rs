//! The topic table and its APIs: Metadata, CreateTopics, DeleteTopics, CreatePartitions, Produce, Fetch, ListOffsets
//! and InitProducerId.
//!
//! One [`Topics`] belongs to one thread. Nothing here does IO, reads a clock or draws random numbers: wall time comes
//! in as `now_ms`, the bits of new topic ids through [`Entropy`]. Messages are kafka-protocol's, decoded and encoded
//! by the caller in the `version` that is passed along.
//!
//! | call | versions | gives |
//! |---|---|---|
//! | `Topics::new(settings, &mut entropy)` | | an empty table that knows `__consumer_offsets` |
//! | `metadata(&request, version, &cluster, &mut entropy)` | 0–13 | `MetadataResponse`; may create topics |
//! | `create_topics(&request, version, &mut entropy)` | 2–7 | `CreateTopicsResponse` |
//! | `delete_topics(&request, version)` | 1–6 | [`Deletion`]: the response and the names that are gone, for `Coordinator::topics_deleted` |
//! | `create_partitions(&request, version)` | 0–3 | `CreatePartitionsResponse` |
//! | `produce(&request, version, now_ms)` | 3–13 | [`ProduceOutcome`]; with acks 0 nothing is written, and the connection is closed if `has_error`, as Kafka does |
//! | `fetch(&request, version)` | 4–18 | [`FetchOutcome`]: answer it at once if `outcome.is_complete(&request)`, else wait |
//! | `watch(&request, version, &notify)` / `unwatch(id)` | 4–18 | the waiting: `notify.notify_one()` once when a partition of the request gets data or is deleted |
//! | `list_offsets(&request, version)` | 1–10 | `ListOffsetsResponse` |
//! | `init_producer_id(&request, version)` | 0–5 | `InitProducerIdResponse` |
//! | `partition_count(name)`, `topic_id(name)`, `topic_name(id)`, `names()` | | what the front-end of the offset APIs asks |
//!
//! Waiting for data: `fetch`; when it is not complete, `watch` with a `Notify` of the connection, wait for the
//! notification or for `max_wait_ms`, `unwatch` if time ran out, `fetch` again. A watch fires at most once and is gone
//! then (`unwatch` of a fired id does nothing); nobody else's data wakes it.
//!
//! Fetches are always answered in full with session id 0 ("no session"), which every client accepts.
//! `__consumer_offsets` is listed with its partitions and reads as empty; nobody may produce to it or delete it.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use kafka_protocol::{error::ResponseError, protocol::StrBytes};
use rota_log::PartitionLog;
use tokio::sync::Notify;
use uuid::Uuid;

mod admin;
mod fetch;
mod list_offsets;
mod metadata;
mod name;
mod produce;
mod producers;
mod settings;

pub use admin::Deletion;
pub use fetch::FetchOutcome;
pub use metadata::{Cluster, Node};
pub use name::{NameError, check_name};
pub use produce::ProduceOutcome;
pub use settings::{TopicSettings, Settings};
