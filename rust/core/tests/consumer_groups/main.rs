//! Groups of the consumer protocol, by the traces of a Kafka 4.4.0 node (docs/consumer-protocol.md).

mod classic;
mod classic_only;
mod configs;
mod conversion;
mod damaged_logs;
mod ends;
mod explain;
mod failures;
mod identities;
mod invariants;
mod offsets;
mod patterns;
mod repeats;
mod reverted;
mod scene;
mod timers;
mod traces;
mod waiting;
