//! Values as bytes. Each has one encoding, because transactions compare by value. What operators look at is text.

use bytes::{Buf, BufMut, Bytes, BytesMut};
use rota_engine::{Beat, Directory, Entry, Epoch, HistoryId, Incarnation, NodeId, Nonce, Part, SnapshotHead};
use uuid::Uuid;

/// The version of the encoding of an entry.
const ENTRY_FORMAT: u8 = 1;
const ENTRY_HEADER_BYTES: usize = 1 + 16 + 4 + 8;

/// A value of a key.
pub trait Value: Sized {
    /// The one encoding.
    fn encode(&self) -> Bytes;
    /// `None` of bytes that no rota wrote.
    fn decode(bytes: &[u8]) -> Option<Self>;
}

fn uuid_text(value: u128) -> Bytes {
    Uuid::from_u128(value).to_string().into()
}

fn text(bytes: &[u8]) -> Option<&str> {
    std::str::from_utf8(bytes).ok()
}

fn uuid(text: &str) -> Option<u128> {
    Uuid::try_parse(text).ok().map(|uuid| uuid.as_u128())
}

macro_rules! uuids {
    ($($type:ident),*) => {$(
        impl Value for $type {
            fn encode(&self) -> Bytes {
                uuid_text(self.0)
            }
            fn decode(bytes: &[u8]) -> Option<$type> {
                uuid(text(bytes)?).map($type)
            }
        }
    )*};
}
uuids!(HistoryId, Directory, Incarnation);

/// The format of a cluster.
impl Value for u32 {
    fn encode(&self) -> Bytes {
        self.to_string().into()
    }

    fn decode(bytes: &[u8]) -> Option<u32> {
        text(bytes)?.parse().ok()
    }
}

/// A note, as its writer encodes it.
impl Value for Vec<u8> {
    fn encode(&self) -> Bytes {
        self.clone().into()
    }

    fn decode(bytes: &[u8]) -> Option<Vec<u8>> {
        Some(bytes.to_vec())
    }
}

impl Value for Part {
    fn encode(&self) -> Bytes {
        let Part { epoch, node, incarnation, held } = self;
        let held = if *held { "held" } else { "released" };
        format!("{} {} {} {held}", epoch.0, node.0, Uuid::from_u128(incarnation.0)).into()
    }

    fn decode(bytes: &[u8]) -> Option<Part> {
        let [epoch, node, incarnation, held] = words(bytes)?;
        let held = match held {
            "held" => true,
            "released" => false,
            _ => return None,
        };
        let (epoch, node) = (Epoch(epoch.parse().ok()?), NodeId(node.parse().ok()?));
        Some(Part { epoch, node, incarnation: Incarnation(uuid(incarnation)?), held })
    }
}

/// Beats of one incarnation are ordered as their counters are: a transaction compares them by order.
impl Value for Beat {
    fn encode(&self) -> Bytes {
        beat_text(self).into()
    }

    fn decode(bytes: &[u8]) -> Option<Beat> {
        let [incarnation, counter] = words(bytes)?;
        Some(Beat { incarnation: Incarnation(uuid(incarnation)?), counter: counter.parse().ok()? })
    }
}

fn beat_text(beat: &Beat) -> String {
    format!("{} {:020}", Uuid::from_u128(beat.incarnation.0), beat.counter)
}

/// Comes after all beats of an incarnation, and before those of a higher one.
pub fn after_beats_of(incarnation: Incarnation) -> Bytes {
    format!("{}~", Uuid::from_u128(incarnation.0)).into()
}

impl Value for SnapshotHead {
    fn encode(&self) -> Bytes {
        let SnapshotHead { upto, epoch, chunks, checksum } = self;
        format!("{upto} {} {chunks} {checksum:08x}", epoch.0).into()
    }

    fn decode(bytes: &[u8]) -> Option<SnapshotHead> {
        let [upto, epoch, chunks, checksum] = words(bytes)?;
        let epoch = Epoch(epoch.parse().ok()?);
        let checksum = u32::from_str_radix(checksum, 16).ok()?;
        Some(SnapshotHead { upto: upto.parse().ok()?, epoch, chunks: chunks.parse().ok()?, checksum })
    }
}

/// The head of an entry's value, with the batches after it.
pub fn encode_entry(nonce: Nonce, epoch: Epoch, count: i64, batches: &[u8]) -> Bytes {
    let mut bytes = BytesMut::with_capacity(ENTRY_HEADER_BYTES + batches.len());
    bytes.put_u8(ENTRY_FORMAT);
    bytes.put_u128(nonce.0);
    bytes.put_i32(epoch.0);
    bytes.put_i64(count);
    bytes.put_slice(batches);
    bytes.freeze()
}

impl Value for Entry {
    fn encode(&self) -> Bytes {
        encode_entry(self.nonce, self.epoch, self.count, &self.bytes)
    }

    fn decode(mut bytes: &[u8]) -> Option<Entry> {
        if bytes.len() < ENTRY_HEADER_BYTES || bytes.get_u8() != ENTRY_FORMAT {
            return None;
        }
        let (nonce, epoch, count) = (Nonce(bytes.get_u128()), Epoch(bytes.get_i32()), bytes.get_i64());
        Some(Entry { nonce, epoch, count, bytes: bytes.to_vec() })
    }
}

fn words<const N: usize>(bytes: &[u8]) -> Option<[&str; N]> {
    let words: Vec<&str> = text(bytes)?.split(' ').collect();
    words.try_into().ok()
}
