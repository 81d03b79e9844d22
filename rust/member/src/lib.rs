//! The member's side of a group as one deterministic state machine.
//!
//! # Theory of operation
//!
//! A [`Member`] does what a Kafka consumer does to join a group and stay in it, and nothing else: it finds the
//! coordinator, joins, plans as the leader, syncs, sends heartbeats, commits, takes over and revokes partitions, and
//! leaves. It is a fold like the coordinator: [`handle`](Member::handle) takes an [`Event`] and the time,
//! [`next_deadline`](Member::next_deadline) returns when to call it again, and the effects are [`Effect`]s.
//!
//! It has no IO, clock, threads or randomness: a driver owns the connections and the time. A driver
//!
//! 1. sends each [`Effect::Send`], and passes the answers on as [`Event::Answered`], in any order;
//! 2. passes [`Event::Disconnected`] when a connection failed, could not be opened, or returned an undecodable answer;
//! 3. closes a connection on [`Effect::Disconnect`], because an answer did not arrive in time;
//! 4. passes [`Event::Poll`] when the application polls, [`Event::Busy`] when it works, [`Event::Done`] when it has
//!    handled a notice that [requires it](Notice::wants_done).
//!
//! Rules are those of docs/protocol.md §22 for the classic protocol, and of docs/consumer-protocol.md §22 for the newer
//! one ([`Protocol`]); events and effects are the same. One duty, one file: [`discovery`], [`rounds`] (join and sync),
//! [`plan`] (the leader's duty), [`heartbeats`], [`commits`], [`leaving`], and [`consumer`] for what only the newer
//! protocol has; what each error does is the table in [`errors`].
#![forbid(unsafe_code)]

mod commits;
pub mod config;
mod consumer;
mod discovery;
pub mod errors;
pub mod event;
mod heartbeats;
mod leaving;
pub mod member;
mod plan;
mod rounds;

pub use config::{Config, ConfigError, Protocol, Strategy};
pub use event::{
    Answer, CommitId, ConsumerHeartbeat, Effect, Event, Failure, Node, Notice, Offset, Partition, Request, RequestId,
    Subscription, To, TopicMetadata,
};
pub use member::{Member, State};
