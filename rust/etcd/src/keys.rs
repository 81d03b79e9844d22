//! Where things are kept under the cluster's prefix.
//!
//! `v/` is small and watched by every node, with one watch: several would not show one revision. `d/` is never watched.
//! Numbers whose order counts have a fixed width.

use bytes::Bytes;
use rota_engine::{ChunkKey, NodeId, PartitionId, SnapshotHead};

/// The keys of a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Keys {
    prefix: String,
}

impl Keys {
    /// Of the cluster at this prefix. A slash at its end makes no difference.
    pub fn new(prefix: &str) -> Keys {
        Keys { prefix: format!("{}/", prefix.trim_end_matches('/')) }
    }

    fn at(&self, path: impl std::fmt::Display) -> Bytes {
        format!("{}{path}", self.prefix).into()
    }

    /// What all nodes watch.
    pub fn view(&self) -> KeyRange {
        KeyRange::below(self.at("v/"))
    }

    /// A key of the view without the prefix and `v/`.
    pub fn in_view<'a>(&self, key: &'a [u8]) -> Option<&'a str> {
        let path = key.strip_prefix(self.prefix.as_bytes())?.strip_prefix(b"v/")?;
        std::str::from_utf8(path).ok()
    }

    /// The history's id: compared by every transaction.
    pub fn history(&self) -> Bytes {
        self.at("v/history")
    }

    /// The format that nodes may write.
    pub fn format(&self) -> Bytes {
        self.at("v/format")
    }

    /// Whose id it is.
    pub fn directory(&self, node: NodeId) -> Bytes {
        self.at(format_args!("v/node/{}/directory", node.0))
    }

    /// The process that runs under the id. A key of its own, so that it is compared by value.
    pub fn incarnation(&self, node: NodeId) -> Bytes {
        self.at(format_args!("v/node/{}/incarnation", node.0))
    }

    /// The node's last beat.
    pub fn beat(&self, node: NodeId) -> Bytes {
        self.at(format_args!("v/beat/{}", node.0))
    }

    /// The owner: routing and fence.
    pub fn part(&self, partition: PartitionId) -> Bytes {
        self.at(format_args!("v/part/{}", partition.0))
    }

    /// What nodes and operators tell each other.
    pub fn note(&self, name: &str) -> Bytes {
        self.at(format_args!("v/note/{name}"))
    }

    /// All owners.
    pub fn parts(&self) -> KeyRange {
        KeyRange::below(self.at("v/part/"))
    }

    /// Never written: see [`guarded`](crate::requests::guarded).
    pub fn counted(&self) -> Bytes {
        self.at("d/counted")
    }

    /// The entry at an offset.
    pub fn entry(&self, partition: PartitionId, base_offset: i64) -> Bytes {
        self.at(format_args!("d/log/{}/{base_offset:016x}", partition.0))
    }

    /// All entries of a partition.
    pub fn entries(&self, partition: PartitionId) -> KeyRange {
        KeyRange::below(self.at(format_args!("d/log/{}/", partition.0)))
    }

    /// The entries of a partition below an offset.
    pub fn entries_before(&self, partition: PartitionId, base_offset: i64) -> KeyRange {
        KeyRange { start: self.entries(partition).start, end: self.entry(partition, base_offset) }
    }

    /// The number that a partition's or node's key ends with.
    pub fn last_id(key: &[u8]) -> Option<i32> {
        std::str::from_utf8(key.rsplit(|byte| *byte == b'/').next()?).ok()?.parse().ok()
    }

    /// The offset of an entry's key.
    pub fn base_offset(key: &[u8]) -> Option<i64> {
        hex(key.rsplit(|byte| *byte == b'/').next()?)
    }

    /// Names the snapshot that counts.
    pub fn head(&self, partition: PartitionId) -> Bytes {
        self.at(format_args!("d/head/{}", partition.0))
    }

    /// A chunk of a snapshot.
    pub fn chunk(&self, partition: PartitionId, chunk: ChunkKey) -> Bytes {
        let ChunkKey { upto, epoch, index } = chunk;
        self.at(format_args!("d/snap/{}/{upto:016x}-{:08x}/{index:08x}", partition.0, epoch.0))
    }

    /// All chunks of a partition.
    pub fn chunks(&self, partition: PartitionId) -> KeyRange {
        KeyRange::below(self.at(format_args!("d/snap/{}/", partition.0)))
    }

    /// The chunks of a partition whose keys come before those of a snapshot.
    pub fn chunks_before(&self, partition: PartitionId, keep: &SnapshotHead) -> KeyRange {
        KeyRange { start: self.chunks(partition).start, end: self.chunk(partition, keep.chunk_key(0)) }
    }

    /// What a chunk's key names.
    pub fn chunk_key(key: &[u8]) -> Option<ChunkKey> {
        let mut parts = key.rsplitn(3, |byte| *byte == b'/');
        let (index, snapshot) = (parts.next()?, parts.next()?);
        let dash = snapshot.iter().position(|byte| *byte == b'-')?;
        let epoch = rota_engine::Epoch(hex(&snapshot[dash + 1..])?);
        Some(ChunkKey { upto: hex(&snapshot[..dash])?, epoch, index: hex(index)? })
    }
}

/// The cluster's prefix in a key that rota wrote: what comes before the first `/v/` or `/d/`.
pub fn prefix_of(key: &[u8]) -> Option<String> {
    let key = std::str::from_utf8(key).ok()?;
    let ends = ["/v/", "/d/"].iter().filter_map(|part| key.find(part));
    ends.min().map(|end| key[..end].to_owned())
}

fn hex<T: TryFrom<u64>>(digits: &[u8]) -> Option<T> {
    let digits = std::str::from_utf8(digits).ok()?;
    T::try_from(u64::from_str_radix(digits, 16).ok()?).ok()
}

/// Keys from `start` on that come before `end`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyRange {
    /// The first key.
    pub start: Bytes,
    /// The first key after the range.
    pub end: Bytes,
}

impl KeyRange {
    /// All keys with a prefix that ends with a slash: `0` follows the slash.
    fn below(prefix: Bytes) -> KeyRange {
        let mut end = prefix.to_vec();
        if let Some(last) = end.last_mut() {
            *last += 1;
        }
        KeyRange { start: prefix, end: end.into() }
    }
}
