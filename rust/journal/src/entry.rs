//! The binary format of a journal.

use std::fmt;

use rota_core::{Coordinator, Now, Phase, records::serialized_bytes};
use serde::{Deserialize, Serialize};

use crate::{
    event::{self, Event, Firing, OwnedEffect, OwnedEvent, Subject},
    recorder::Outcome,
};

/// The version of the format: the first byte of every entry.
pub const VERSION: u8 = 1;

/// Most events fit without another allocation.
const ROOM_BYTES: usize = 256;

/// The content after the version byte, for writing.
#[derive(Serialize)]
struct Written<'a> {
    sequence: u64,
    now: Now,
    event: &'a Event<'a>,
    #[serde(serialize_with = "serialized_bytes")]
    effects: &'a [u8],
    digest: u64,
}

/// The content after the version byte, for reading.
#[derive(Debug, Deserialize)]
pub struct Entry<'a> {
    /// Sequence number within the incarnation, from 0.
    pub sequence: u64,
    /// The time of the event.
    pub now: Now,
    /// The event.
    #[serde(borrow)]
    pub event: OwnedEvent<'a>,
    /// The encoded effects, see [`Entry::effects`].
    #[serde(borrow)]
    effects: &'a [u8],
    /// The digest of the event's group afterwards, `Coordinator::outline_digest`; 0 while loading.
    pub digest: u64,
}

/// Why bytes cannot be decoded as an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EntryError {
    /// The entry has a later version.
    Version(u8),
    /// The entry is malformed.
    Unreadable(String),
}

impl fmt::Display for EntryError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            EntryError::Version(version) => {
                write!(out, "it has version {version} of the format, and this rota knows {VERSION}; use a later one")
            }
            EntryError::Unreadable(reason) => write!(out, "it is no entry of a journal: {reason}"),
        }
    }
}

impl std::error::Error for EntryError {}

fn unreadable(error: impl fmt::Display) -> EntryError {
    EntryError::Unreadable(error.to_string())
}

impl<'a> Entry<'a> {
    /// Decodes an entry.
    pub fn read(bytes: &'a [u8]) -> Result<Entry<'a>, EntryError> {
        match bytes.split_first() {
            Some((&VERSION, body)) => whole(postcard::take_from_bytes(body)),
            Some((version, _)) => Err(EntryError::Version(*version)),
            None => Err(unreadable("it is empty")),
        }
    }

    /// Whether a replay can start at this entry, without decoding all of it: the beginning of an incarnation, or a
    /// snapshot. The rest may be unreadable.
    pub fn begins_anew(bytes: &[u8]) -> bool {
        let Some((&VERSION, body)) = bytes.split_first() else { return false };
        let head = postcard::take_from_bytes::<(u64, Now, u32)>(body);
        head.is_ok_and(|((_, _, variant), _)| matches!(variant, event::BEGAN | event::SNAPSHOT))
    }

    /// Decodes the effects of the event, in order.
    pub fn effects(&self) -> Result<Vec<OwnedEffect<'a>>, EntryError> {
        effects_in(self.effects)
    }

    /// Returns the encoded effects.
    pub(crate) fn effect_bytes(&self) -> &'a [u8] {
        self.effects
    }

    /// Encodes the entry with these effects: the inverse of [`Entry::read`].
    pub fn write(&self, effects: &[OwnedEffect<'_>]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for effect in effects {
            bytes = postcard::to_extend(effect, bytes).expect("plain data can be written");
        }
        let Entry { sequence, now, digest, .. } = *self;
        self.event.with(|event| bytes_of(&Written { sequence, now, event: &event, effects: &bytes, digest }))
    }

    /// Formats the entry as one JSON object.
    pub fn to_json(&self) -> Result<String, EntryError> {
        let effects = self.effects()?;
        let shown = Shown { sequence: self.sequence, now: self.now, event: &self.event, effects, digest: self.digest };
        serde_json::to_string(&shown).map_err(unreadable)
    }
}

/// Decodes consecutive effects.
pub(crate) fn effects_in(mut bytes: &[u8]) -> Result<Vec<OwnedEffect<'_>>, EntryError> {
    let mut effects = Vec::new();
    while !bytes.is_empty() {
        let (effect, rest) = postcard::take_from_bytes(bytes).map_err(unreadable)?;
        effects.push(effect);
        bytes = rest;
    }
    Ok(effects)
}

fn whole<T>(read: postcard::Result<(T, &[u8])>) -> Result<T, EntryError> {
    match read.map_err(unreadable)? {
        (entry, []) => Ok(entry),
        (_, rest) => Err(unreadable(format!("{} bytes follow it", rest.len()))),
    }
}

#[derive(Serialize)]
struct Shown<'a> {
    sequence: u64,
    #[serde(flatten)]
    now: Now,
    event: &'a OwnedEvent<'a>,
    effects: Vec<OwnedEffect<'a>>,
    digest: u64,
}

fn bytes_of(written: &Written<'_>) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(written.effects.len() + ROOM_BYTES);
    bytes.push(VERSION);
    postcard::to_extend(written, bytes).expect("plain data can be written")
}

/// Encodes an entry without effects and group.
pub fn write_mark(sequence: u64, now: Now, event: &Event<'_>) -> Vec<u8> {
    bytes_of(&Written { sequence, now, event, effects: &[], digest: 0 })
}

/// Encodes the entries of one event that was applied, and passes each with its group to the caller. `sequence` counts
/// them.
pub fn write_entries(
    coordinator: &Coordinator,
    now: Now,
    event: &Event<'_>,
    subject: &Subject<'_>,
    outcome: &Outcome,
    sequence: &mut u64,
    mut take: impl FnMut(&str, Vec<u8>),
) {
    let mut write = |event: &Event<'_>, group_id: &str, member_id: &str, effects: &[u8]| {
        // The log has what is being loaded, not the journal.
        let is_loading = coordinator.phase() == Phase::Loading;
        let digest = if is_loading { 0 } else { coordinator.outline_digest(group_id, member_id) };
        let written = Written { sequence: *sequence, now, event, effects, digest };
        take(group_id, bytes_of(&written));
        // Only a journal that no server has written counts that far.
        *sequence = sequence.saturating_add(1);
    };
    let firings = outcome.firings();
    let count = firings.len() as u32;
    if !matches!(event, Event::Advanced(_)) || count == 0 {
        return write(event, &subject.group_id, subject.member_id, outcome.effects());
    }
    for (index, (fired, effects)) in (0..).zip(firings) {
        let firing = Firing { index, count, timer: fired.timer, group_id: &fired.group_id };
        write(&Event::Advanced(firing), &fired.group_id, "", effects);
    }
}
