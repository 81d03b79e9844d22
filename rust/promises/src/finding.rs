//! What a fold finds, and the promises that it is about.

use std::sync::Arc;

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// An invariant is broken.
    Violation,
    /// It is worth knowing.
    Observation,
}

/// Which logs show a promise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shown {
    /// The group records of any log.
    Records,
    /// Journals only.
    Journal,
}

/// A promise.
#[derive(Clone, Copy, Debug)]
pub struct Promise {
    /// The name of what breaks it.
    pub name: &'static str,
    /// The invariant's id; empty: none forbids it.
    pub id: &'static str,
    /// How bad that is.
    pub severity: Severity,
    /// Which logs show it.
    pub shown: Shown,
    /// What it means, in words.
    pub says: &'static str,
}

/// Something that breaks a promise, or that is worth knowing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The promise's name.
    pub name: &'static str,
    /// The group.
    pub group: Option<Arc<str>>,
    /// The generation.
    pub generation: Option<i32>,
    /// Offset of the earliest record that shows it.
    pub first_offset: i64,
    /// Offset of the record that completes it.
    pub last_offset: i64,
    /// Wall milliseconds of that record.
    pub at_ms: Option<i64>,
    /// The members concerned, sorted.
    pub members: Vec<Arc<str>>,
    /// What shows it, in a few words.
    pub witness: String,
}

/// Where a finding is: the group, generation, offset and time of a record.
#[expect(clippy::struct_field_names, reason = "a time ends in its unit")]
#[derive(Clone, Debug)]
pub(crate) struct At {
    pub group: Option<Arc<str>>,
    pub generation: Option<i32>,
    pub offset: i64,
    pub at_ms: Option<i64>,
}

impl At {
    /// Something that one record shows.
    pub(crate) fn finding(&self, name: &'static str, members: Vec<Arc<str>>, witness: String) -> Finding {
        self.since(self.offset, name, members, witness)
    }

    /// Something that began with an earlier record.
    pub(crate) fn since(
        &self,
        first_offset: i64,
        name: &'static str,
        mut members: Vec<Arc<str>>,
        witness: String,
    ) -> Finding {
        members.retain(|member| !member.is_empty());
        members.sort();
        members.dedup();
        let At { group, generation, offset: last_offset, at_ms } = self.clone();
        Finding { name, group, generation, first_offset, last_offset, at_ms, members, witness }
    }
}

/// Findings, and how they are collected.
#[derive(Debug)]
pub(crate) struct Found {
    pub findings: Vec<Finding>,
    pub extent: Extent,
}

impl Found {
    pub(crate) fn push(&mut self, finding: Finding) {
        self.findings.push(finding);
    }
}

/// How much of a log a fold sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// All of it: what sums up is said at its end.
    Whole,
    /// A log that grows: everything is said as soon as it is certain.
    Growing,
}

impl Extent {
    /// How many generations of a group are remembered.
    pub(crate) fn generations(self) -> usize {
        if self == Extent::Whole { 256 } else { 16 }
    }

    /// How many members of a group that have gone are remembered.
    pub(crate) fn members(self) -> usize {
        if self == Extent::Whole { 1_000_000 } else { 1_000 }
    }

    /// How many answered requests of a partition are remembered.
    pub(crate) fn tickets(self) -> usize {
        if self == Extent::Whole { 100_000 } else { 1_000 }
    }
}

use Severity::{Observation, Violation};
use Shown::{Journal, Records};

/// Name, id, severity, where it is shown, and what it means.
type Line = (&'static str, &'static str, Severity, Shown, &'static str);

#[rustfmt::skip]
const LINES: &[Line] = &[
    ("two owners", "S12", Violation, Records, "one partition is assigned to two members"),
    ("not subscribed", "S12", Violation, Records,
        "a member is assigned a partition of a topic to which it does not subscribe"),
    ("leader not a member", "S3", Violation, Records, "the leader is not one of the members, or there is no leader"),
    ("no protocol", "S6", Violation, Records, "a group with members has no protocol"),
    ("instance twice", "S16", Violation, Records, "two members have the same group.instance.id"),
    ("generation back", "S4", Violation, Records, "a group's generation went back"),
    ("generation reused", "S4", Violation, Records, "one generation has two different assignments"),
    ("resurrected", "S29", Violation, Records, "a member that was gone is back"),
    ("replacement lost", "S17", Violation, Records,
        "a static member that was replaced is back under its old member id"),
    ("held by two", "C1", Violation, Records,
        "one partition is held by two members of a consumer group at the same time"),
    ("epoch back", "C3", Violation, Records, "the epoch of a consumer group or of its target went back"),
    ("epoch ahead", "C3", Violation, Records,
        "the epoch of a target is later than its group's, or that of a member later than its target's"),
    ("member epoch back", "C4", Violation, Records, "the epoch of a member of a consumer group went back"),
    ("granted too early", "C5", Violation, Records,
        "a member was granted a partition while it had others to give up"),
    ("target of two", "C7", Violation, Records, "a target has one partition for two members"),
    ("target incomplete", "C7", Violation, Records, "a target leaves a partition of a topic out"),
    ("commit not fenced", "C11", Violation, Journal,
        "a consumer group accepted a commit of an epoch that is not the member's"),
    ("two leaders", "S1", Violation, Journal, "two members got answers that name them leader of one generation"),
    ("different answers", "S9", Violation, Journal,
        "members of one round got different generations, protocols or leaders"),
    ("generation told back", "S4", Violation, Journal, "a member got an older generation than another member before"),
    ("list is not the group", "S34", Violation, Journal, "a member is in the generation but not in its leader's list"),
    ("not relayed", "S11", Violation, Journal, "a member got another assignment than its leader gave for it"),
    ("told before durable", "S26", Violation, Journal,
        "an assignment or a commit was acknowledged before its record was durable"),
    ("commit of an old generation", "S15", Violation, Journal, "a commit of an older generation was accepted"),
    ("commit of a departed member", "S15", Violation, Journal, "a commit of a member that had left was accepted"),
    ("answer to a departed member", "S14", Violation, Journal, "a member that had left was answered NONE"),
    ("replaced and not fenced", "S17", Violation, Journal, "a replaced static member was answered NONE"),
    ("answered twice", "S18", Violation, Journal, "a request was answered more than once"),
    ("never answered", "S18", Violation, Journal,
        "a request was not answered although its time had passed, or its coordinator was unloaded"),
    ("late phase", "L1", Violation, Journal, "the join phase outlived its deadline"),
    ("late sync", "L2", Violation, Journal, "the sync phase outlived its deadline"),
    ("silent and still there", "L3", Violation, Journal,
        "a member was answered NONE although its session had long expired"),
    ("early expiry", "S20", Violation, Journal, "a session ended although every member had been heard of in time"),
    ("answer while loading", "S33", Violation, Journal,
        "a request other than a Heartbeat succeeded before its coordinator had loaded"),
    ("answer after unloading", "S28", Violation, Journal,
        "a request succeeded after its coordinator had been unloaded"),
    ("entries out of order", "S23", Violation, Journal,
        "entries of the journal are missing, repeated or in the wrong place"),
    ("offset went back", "", Observation, Records,
        "a committed offset is smaller than the one before; that may be meant"),
    ("storm", "", Observation, Records, "10 generations within 60 s"),
    ("zombie commit", "", Observation, Journal, "a member committed for a partition that is assigned to another one"),
    ("never settles", "L5", Observation, Journal, "3 generations in a row ended without an assignment"),
];

/// Returns all promises of the fold, in the order of docs/audit.md.
pub fn promises() -> impl Iterator<Item = Promise> {
    LINES.iter().map(|&(name, id, severity, shown, says)| Promise { name, id, severity, shown, says })
}
