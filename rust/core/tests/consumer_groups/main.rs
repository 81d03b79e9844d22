//! Groups of the consumer protocol, by the traces of a Kafka 4.4.0 node (docs/consumer-protocol.md).

mod failures;
mod scene;
mod traces;
