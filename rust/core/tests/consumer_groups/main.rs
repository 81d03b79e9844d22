//! Groups of the consumer protocol, by the traces of a Kafka 4.4.0 node (docs/consumer-protocol.md).

mod classic;
mod configs;
mod conversion;
mod explain;
mod failures;
mod identities;
mod invariants;
mod offsets;
mod patterns;
mod repeats;
mod scene;
mod traces;
mod waiting;
