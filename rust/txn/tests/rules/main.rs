//! The rules of docs/transactions.md, as tables and sessions that Apache Kafka 4.4.0 has answered the same way.

mod durability;
mod loading;
mod records;
mod scene;
mod sessions;
mod table;
mod time;
