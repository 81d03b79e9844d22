//! The fold over the rows of one partition of a log.

use std::{
    collections::{BTreeMap, BTreeSet, HashSet},
    fmt::{self, Write},
    sync::Arc,
};

use serde::{Deserialize, Serialize};

use crate::{
    columns::{Batch, Row},
    commits::Commit,
    consumers::{Known, consumer_records},
    finding::{Extent, Finding, Found},
    groups::{Group, Groups},
    journal::Journal,
    version::versions,
};

/// Number of the format of a state.
const FORMAT: u32 = 6;

/// Maximum rows kept that say what could not be read.
const TROUBLES_MAX: usize = 1_000;

/// Maximum lines of a witness, without the last one that says how many are left out.
const WITNESS_LINES: usize = 9;

/// Kind of a row of a record that no promise is about.
const OTHER: &str = "other";

/// A state of another version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StateError(String);

impl fmt::Display for StateError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

impl std::error::Error for StateError {}

/// Something that could not be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trouble {
    /// The offset that was due.
    pub offset: i64,
    /// `unreadable`, or `torn`: what a crash leaves at the end of a log.
    pub kind: String,
    /// Why.
    pub reason: String,
}

/// What a fold counted.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// Rows.
    pub rows: u64,
    /// Offsets without a record.
    pub compacted: i64,
    /// Records that no promise is about, by what they are about: `share group`, `streams group` or `unknown`.
    pub skipped: BTreeMap<String, u64>,
    /// What could not be read, the first thousand.
    pub troubles: Vec<Trouble>,
}

#[derive(Debug, Default, Deserialize, Serialize)]
struct Place {
    /// What is before it has been seen.
    next_offset: i64,
    known: Known,
    /// What was remembered of classic groups before this offset counts no more, because records are missing.
    lives_from: i64,
    /// Whether a journal's next whole state tells which groups are still there.
    awaits_state: bool,
    journal: Journal,
}

/// What is remembered of one partition of a log.
#[derive(Debug)]
pub struct Fold {
    is_journal: bool,
    place: Place,
    groups: Groups,
    found: Found,
    tally: Tally,
}

impl Fold {
    /// Returns a fold that remembers nothing.
    pub fn new(is_journal: bool, extent: Extent) -> Fold {
        let found = Found { findings: Vec::new(), extent };
        Fold { is_journal, place: Place::default(), groups: Groups::default(), found, tally: Tally::default() }
    }

    /// Folds the next rows, in log order and of whole records. Rows that have been seen are passed over.
    pub fn rows(&mut self, batch: &Batch<'_>) {
        let mut of_record: Vec<Row<'_>> = Vec::new();
        for index in 0..batch.rows() {
            let row = batch.row(index);
            if row.offset.unwrap_or_default() < self.place.next_offset || row.kind == Some("entry") {
                continue;
            }
            self.tally.rows += 1;
            let is_trouble = matches!(row.kind, Some("unreadable" | "torn"));
            if is_trouble || of_record.last().is_some_and(|last| last.offset != row.offset) {
                self.record(&of_record);
                of_record.clear();
            }
            if is_trouble {
                self.trouble(&row);
            } else {
                of_record.push(row);
            }
        }
        self.record(&of_record);
        if self.is_journal {
            self.place.journal.pause(&mut self.groups, &mut self.found);
        }
    }

    /// Records before this offset are missing, which may have said anything about consumer groups.
    fn know_from(&mut self, from: i64) {
        self.know(Known { from, lacks: true });
    }

    fn know(&mut self, known: Known) {
        self.place.known = known;
        self.groups.know(known);
    }

    /// Records before this offset are missing, by which classic groups may have ended and begun anew.
    fn live_from(&mut self, from: i64) {
        self.place.lives_from = from;
        self.groups.live_from(from);
    }

    /// Nothing is known of what the log had before this offset and behind what was read.
    fn miss(&mut self, from: i64) {
        self.know_from(from);
        self.live_from(from);
        if self.is_journal {
            self.place.awaits_state = true;
            self.place.journal.miss();
        }
    }

    /// From this offset on a part of the log cannot be read.
    pub fn unreadable(&mut self, offset: i64, reason: &str) {
        self.tally.rows += 1;
        let offset = Some(offset.max(self.place.next_offset));
        self.trouble(&Row { offset, kind: Some("unreadable"), note: Some(reason), ..Row::default() });
    }

    fn trouble(&mut self, row: &Row<'_>) {
        let from = row.offset.unwrap_or_default() + 1;
        if row.kind == Some("torn") {
            // Nothing follows.
            self.know_from(from);
        } else {
            self.miss(from);
        }
        if self.tally.troubles.len() < TROUBLES_MAX {
            self.tally.troubles.push(Trouble {
                offset: row.offset.unwrap_or_default(),
                kind: row.kind.unwrap_or_default().to_owned(),
                reason: row.note.unwrap_or_default().to_owned(),
            });
        }
    }

    /// The rows of one record, if there are any.
    fn record(&mut self, rows: &[Row<'_>]) {
        let Some(offset) = rows.first().map(|row| row.offset.unwrap_or_default()) else { return };
        let is_first = self.place.next_offset == 0;
        if is_first && offset > 0 {
            self.know_from(offset);
        }
        self.place.next_offset = offset + 1;
        if rows[0].kind == Some("compacted") {
            let count = rows[0].count.unwrap_or_default();
            self.tally.compacted += count;
            self.place.next_offset += count - 1;
            if !is_first && (self.is_journal || self.found.extent == Extent::Growing) {
                self.miss(self.place.next_offset);
            } else {
                // Compaction never leaves a record and takes a later tombstone of the group: classic groups lived on.
                self.know_from(self.place.next_offset);
            }
        } else if self.is_journal {
            self.of_entry(rows);
        } else {
            self.of_group_record(rows);
        }
    }

    /// An entry of a journal.
    fn of_entry(&mut self, rows: &[Row<'_>]) {
        let kind = rows[0].kind.unwrap_or_default();
        // A coordinator begins with what the log says, which may be more than the journal heard of.
        if matches!(kind, "began" | "gap") {
            self.know_from(self.place.next_offset);
            self.place.awaits_state = true;
        }
        if kind == "gap" {
            self.live_from(self.place.next_offset);
        }
        if matches!(kind, "loaded" | "snapshot") && self.place.awaits_state {
            self.place.awaits_state = false;
            self.live_from(self.place.next_offset);
            for row in rows {
                if let Some(name) = row.group {
                    self.groups.is_held(name, row.generation);
                }
            }
        }
        self.place.journal.of_entry(rows, &mut self.groups, &mut self.found);
        if kind == "loaded" {
            // It names every group.
            self.know(Known { lacks: false, ..self.place.known });
        }
    }

    /// A record of `__consumer_offsets`.
    fn of_group_record(&mut self, rows: &[Row<'_>]) {
        if rows[0].kind == Some(OTHER) {
            *self.tally.skipped.entry(rows[0].note.unwrap_or("unknown").to_owned()).or_default() += 1;
            return;
        }
        let Some(name) = rows[0].group else { return };
        let (name, group) = self.groups.get(name);
        match rows[0].kind.unwrap_or_default() {
            "offset" => group.committed.of_commit(&Commit::of_row(&rows[0]), &mut self.found),
            "group" if rows[0].generation.is_none() && group.is_newer => group.consumers.of_classic_end(),
            "group" if !group.is_newer => {
                for version in versions(rows) {
                    group.of_version(&version, false, &mut self.found);
                    if version.generation.is_none() {
                        group.consumers.of_classic_end();
                    }
                    if version.generation.is_some() {
                        group.storm.of_round(name, &version.at(), &mut self.found);
                    }
                }
            }
            kind if kind.starts_with("consumer") => {
                group.is_newer = true;
                for record in consumer_records(rows) {
                    group.consumers.of_record(&record, &mut self.found);
                }
            }
            _ => {}
        }
    }

    /// The log ends here.
    pub fn end(&mut self) {
        if self.is_journal {
            self.place.journal.end(&mut self.groups, &mut self.found);
        }
        if self.found.extent == Extent::Whole {
            for (name, group) in self.groups.iter_mut() {
                group.storm.end(name, &mut self.found);
                group.answers.settling.end(name, &mut self.found);
            }
        }
    }

    /// Takes what was found since the last time, in the order of its records. What one record shows of the same members
    /// more than once is one finding, with a line in its witness for each.
    pub fn take(&mut self) -> Vec<Finding> {
        let mut found = std::mem::take(&mut self.found.findings);
        found.sort_by(|one, other| place_of(one).cmp(&place_of(other)).then_with(|| one.witness.cmp(&other.witness)));
        let mut merged: Vec<(Finding, usize)> = Vec::with_capacity(found.len());
        for finding in found {
            match merged.last_mut() {
                Some((last, count)) if place_of(last) == place_of(&finding) => {
                    *count += 1;
                    if *count <= WITNESS_LINES {
                        last.witness.push('\n');
                        last.witness.push_str(&finding.witness);
                    }
                }
                _ => merged.push((finding, 1)),
            }
        }
        let told = |(mut finding, count): (Finding, usize)| {
            if count > WITNESS_LINES {
                write!(finding.witness, "\n... and {} more", count - WITNESS_LINES).expect("a string takes it");
            }
            finding
        };
        merged.into_iter().map(told).collect()
    }

    /// Takes what was counted since the last time.
    pub fn take_tally(&mut self) -> Tally {
        std::mem::take(&mut self.tally)
    }

    /// Returns the groups, and whether each is one of the newer protocol.
    pub fn groups(&self) -> impl Iterator<Item = (&Arc<str>, bool)> {
        self.groups.iter().map(|(name, group)| (name, group.is_newer))
    }

    // ---- what is kept from some rows of a growing log to the next

    /// Returns the groups whose states these rows need.
    pub fn needs(&self, batch: &Batch<'_>) -> BTreeSet<Arc<str>> {
        let mut names: HashSet<&str> = HashSet::new();
        let rows = (0..batch.rows()).map(|index| batch.row(index));
        names.extend(rows.filter(|row| row.kind != Some(OTHER)).filter_map(|row| row.group));
        names.into_iter().map(Arc::from).chain(self.place.journal.groups().cloned()).collect()
    }

    /// Returns the offset before which everything has been seen.
    pub fn next_offset(&self) -> i64 {
        self.place.next_offset
    }

    /// Returns the state of the partition without its groups.
    pub fn state(&self) -> Vec<u8> {
        written(&self.place)
    }

    /// Goes on with the state of a partition.
    pub fn resume(&mut self, state: &[u8]) -> Result<(), StateError> {
        self.place = read(state)?;
        self.groups.know(self.place.known);
        self.groups.live_from(self.place.lives_from);
        Ok(())
    }

    /// Returns the states of the groups.
    pub fn group_states(&self) -> impl Iterator<Item = (&Arc<str>, Vec<u8>)> {
        self.groups.iter().map(|(name, group)| (name, written(group)))
    }

    /// Goes on with the state of a group.
    pub fn resume_group(&mut self, name: &str, state: &[u8]) -> Result<(), StateError> {
        let group: Group = read(state)?;
        self.groups.insert(name.into(), group);
        Ok(())
    }
}

/// What two findings have in common if they are one.
fn place_of(found: &Finding) -> impl Ord {
    let Finding { name, group, generation, first_offset, last_offset, members, .. } = found;
    (*last_offset, *name, *first_offset, group.clone(), *generation, members.clone())
}

fn written(state: &impl Serialize) -> Vec<u8> {
    postcard::to_allocvec(&(FORMAT, state)).expect("a state in memory can be written")
}

fn read<'a, T: Deserialize<'a>>(state: &'a [u8]) -> Result<T, StateError> {
    let again = "follow from the beginning with another --checkpoint directory";
    match postcard::take_from_bytes::<u32>(state) {
        Ok((FORMAT, rest)) => postcard::from_bytes(rest)
            .map_err(|error| StateError(format!("the checkpoint is damaged ({error}): {again}"))),
        // Earlier ones were JSON.
        _ if state.starts_with(b"{") => {
            Err(StateError(format!("the checkpoint was written by an earlier version of rota: {again}")))
        }
        Ok((format, _)) => {
            let reason = format!("the checkpoint has format {format}, this version of rota reads {FORMAT}");
            Err(StateError(format!("{reason}: {again}")))
        }
        Err(_) => Err(StateError(format!("the checkpoint is not of this version of rota: {again}"))),
    }
}
