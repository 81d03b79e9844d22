//! The member's side of a group as one deterministic state machine.
//!
//! # Theory of operation
//!
//! A [`Member`] does what a Kafka consumer does to get into a group and to stay in it, and nothing else: it finds the
//! coordinator, joins, plans as the leader, syncs, heartbeats, commits, gives partitions up and takes them over, and
//! leaves. It is a fold like the coordinator: [`handle`](Member::handle) takes an [`Event`] and the time,
//! [`next_deadline`](Member::next_deadline) says when it wants to be called again, and what is to be done comes out as
//! [`Effect`]s: requests to send, and [`Notice`]s for the application.
//!
//! No IO, no clock, no thread, no randomness: whoever drives it owns the connections and the time. A driver
//!
//! 1. sends what [`Effect::Send`] asks for, and hands the answer in with [`Event::Answered`], in any order;
//! 2. says [`Event::Disconnected`] when a connection broke, could not be made, or said something that is no answer;
//! 3. closes a connection on [`Effect::Disconnect`]: an answer did not come in time;
//! 4. says [`Event::Poll`] when the application waits for news, [`Event::Busy`] when it works, [`Event::Done`] when it
//!    has dealt with a notice that [wants it](Notice::wants_done).
//!
//! Rules are those of docs/protocol.md §22. One duty, one file: [`discovery`], [`rounds`] (join and sync), [`plan`] (the
//! leader's duty), [`heartbeats`], [`commits`], [`leaving`]; what each error does is the table in [`errors`].
#![forbid(unsafe_code)]

mod commits;
pub mod config;
mod discovery;
pub mod errors;
pub mod event;
mod heartbeats;
mod leaving;
pub mod member;
mod plan;
mod rounds;

pub use config::{Config, ConfigError, Strategy};
pub use event::{
    Answer, CommitId, Effect, Event, Failure, Node, Notice, Offset, Partition, Request, RequestId, Subscription, To,
    TopicMetadata,
};
pub use member::{Member, State};
