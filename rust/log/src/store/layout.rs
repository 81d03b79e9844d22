//! Names and small files of a data directory. Where Kafka has one, it is Kafka's: `TOPIC-PARTITION` directories,
//! segments named after their first offset, `partition.metadata`, `leader-epoch-checkpoint`, `meta.properties`.

use std::fmt::Write as _;

/// Says whose directory it is; Kafka writes one, too, without [`MARKER`].
pub const META_PROPERTIES: &str = "meta.properties";
/// The property that a directory of ours has.
pub const MARKER: &str = "rota.version";
/// Locked while the directory is open.
pub const LOCK: &str = ".lock";
/// What is known to be durable in the segments, see [`Checkpoint`].
pub const CHECKPOINT: &str = "rota.checkpoint";
/// Epochs of a partition and where they begin.
pub const LEADER_EPOCHS: &str = "leader-epoch-checkpoint";
/// The id of a partition's topic.
pub const PARTITION_METADATA: &str = "partition.metadata";
/// Being compacted; worthless after a crash.
pub const CLEANED: &str = "cleaned";
/// What was a segment before it was repaired: nobody reads it.
pub const DAMAGED: &str = "damaged";
/// Compacted, to take the place of what it was made from.
pub const SWAP: &str = "swap";

const WAL: &str = "rota.wal.";
const KEPT: &str = "rota.kept.";
/// Longest topic name.
const TOPIC_CHARACTERS_MAX: usize = 249;

/// The name of a segment's file.
pub fn segment_name(base_offset: i64) -> String {
    format!("{base_offset:020}.log")
}

/// The base offset in a segment's name.
pub fn segment_base(name: &str) -> Option<i64> {
    let digits = name.strip_suffix(".log").filter(|digits| digits.len() == 20)?;
    digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse().ok()).flatten()
}

/// The name of a write-ahead file.
pub fn wal_name(number: u64) -> String {
    format!("{WAL}{number:010}")
}

/// What a write-ahead file is called that is only needed to mend something.
pub fn kept_name(number: u64) -> String {
    format!("{KEPT}{number:010}")
}

/// Whether it is such a name.
pub fn is_kept(name: &str) -> bool {
    name.starts_with(KEPT)
}

/// The number in a write-ahead file's name.
pub fn wal_number(name: &str) -> Option<u64> {
    name.strip_prefix(WAL)?.parse().ok()
}

/// Whether a file was to replace another one as a whole and has not come to it.
pub fn is_temporary(name: &str) -> bool {
    name.strip_suffix("tmp").is_some_and(|stem| stem.ends_with('.'))
}

/// The name of a partition's directory.
pub fn partition_name(topic: &str, partition: i32) -> String {
    format!("{topic}-{partition}")
}

/// Topic and partition in a directory's name.
pub fn topic_partition(name: &str) -> Option<(&str, i32)> {
    let (topic, partition) = name.rsplit_once('-')?;
    let partition: i32 = partition.parse().ok().filter(|partition| *partition >= 0)?;
    is_topic(topic).then_some((topic, partition))
}

/// Whether it is a topic's name: Kafka's characters, so that it is a file's name too.
pub fn is_topic(name: &str) -> bool {
    let legal = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    (1..=TOPIC_CHARACTERS_MAX).contains(&name.len()) && name.bytes().all(legal) && name != "." && name != ".."
}

/// `partition.metadata`.
pub fn partition_metadata(topic_id: u128) -> String {
    format!("version: 0\ntopic_id: {}", uuid_text(topic_id))
}

/// The topic id in `partition.metadata`.
pub fn topic_id_in(text: &str) -> Option<u128> {
    text.lines().find_map(|line| line.strip_prefix("topic_id: ")).and_then(|text| uuid_of(text.trim()))
}

const URL_SAFE: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// As Kafka writes ids: URL-safe base 64 without padding, 22 characters.
pub fn uuid_text(id: u128) -> String {
    let digit = |shift: u32| char::from(URL_SAFE[(id >> shift) as usize & 63]);
    let last = char::from(URL_SAFE[((id & 3) << 4) as usize]);
    (0..21).map(|at| digit(122 - at * 6)).chain([last]).collect()
}

/// The reverse of [`uuid_text`].
pub fn uuid_of(text: &str) -> Option<u128> {
    if text.len() != 22 {
        return None;
    }
    let mut id = 0_u128;
    for (at, byte) in text.bytes().enumerate() {
        let digit = URL_SAFE.iter().position(|known| *known == byte)? as u128;
        id = if at < 21 { id << 6 | digit } else { id << 2 | digit >> 4 };
    }
    Some(id)
}

/// Epochs and where they begin, oldest first.
pub type Epochs = Vec<(i32, i64)>;

/// `leader-epoch-checkpoint`.
pub fn epochs_text(epochs: &[(i32, i64)]) -> String {
    let mut text = format!("0\n{}\n", epochs.len());
    for (epoch, start) in epochs {
        let _ = writeln!(text, "{epoch} {start}");
    }
    text
}

/// What `leader-epoch-checkpoint` says; `None` if it is not one.
pub fn epochs_in(text: &str) -> Option<Epochs> {
    let mut lines = text.lines();
    (lines.next()? == "0").then_some(())?;
    let count: usize = lines.next()?.parse().ok()?;
    let epochs: Option<Epochs> = lines
        .map(|line| line.split_once(' ').and_then(|(epoch, start)| Some((epoch.parse().ok()?, start.parse().ok()?))))
        .collect();
    epochs.filter(|epochs| epochs.len() == count)
}

/// Up to where the segments of all partitions are durable: what comes after is in the write-ahead files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Checkpoint {
    /// The first write-ahead file that is needed.
    pub wal_number: u64,
    /// Of each partition.
    pub partitions: Vec<CheckpointedPartition>,
}

/// See [`Checkpoint`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckpointedPartition {
    /// Its topic.
    pub topic: String,
    /// Its number.
    pub partition: i32,
    /// Of its topic.
    pub topic_id: u128,
    /// The offset that comes next.
    pub next_offset: i64,
    /// Base offset of the newest segment.
    pub segment_base: i64,
    /// Bytes of the newest segment.
    pub segment_bytes: u64,
    /// Where the part begins that compaction has not been over.
    pub first_dirty_offset: i64,
    /// Oldest first.
    pub epochs: Epochs,
    /// It was damaged: what came after is in its segments or in write-ahead files that were kept.
    pub is_refused: bool,
}

impl Checkpoint {
    /// As a file: lines of words, and a checksum of them.
    pub fn to_text(&self) -> String {
        let mut text = format!("rota-checkpoint 1\nwal {}\n", self.wal_number);
        for partition in &self.partitions {
            let CheckpointedPartition { topic, partition: number, next_offset, .. } = partition;
            let CheckpointedPartition { segment_base, segment_bytes, first_dirty_offset, .. } = partition;
            let id = uuid_text(partition.topic_id);
            let kind = if partition.is_refused { REFUSED } else { WHOLE };
            let _ = write!(text, "{kind} {topic} {number} {id} {next_offset} {segment_base} {segment_bytes}");
            let _ = write!(text, " {first_dirty_offset}");
            for (epoch, start) in &partition.epochs {
                let _ = write!(text, " {epoch}:{start}");
            }
            text.push('\n');
        }
        let crc = crc32c::crc32c(text.as_bytes());
        let _ = writeln!(text, "crc32c {crc:08x}");
        text
    }

    /// The reverse of [`Checkpoint::to_text`]; `None` if it is damaged.
    pub fn of_text(text: &str) -> Option<Checkpoint> {
        let summed = text.rfind("crc32c ")?;
        let crc = u32::from_str_radix(text[summed..].trim_end().strip_prefix("crc32c ")?, 16).ok()?;
        (crc32c::crc32c(&text.as_bytes()[..summed]) == crc).then_some(())?;
        let mut lines = text[..summed].lines();
        (lines.next()? == "rota-checkpoint 1").then_some(())?;
        let wal_number = lines.next()?.strip_prefix("wal ")?.parse().ok()?;
        let partitions = lines.map(checkpointed).collect::<Option<Vec<_>>>()?;
        Some(Checkpoint { wal_number, partitions })
    }
}

/// The first words of a partition's line.
const WHOLE: &str = "partition";
const REFUSED: &str = "refused";

fn checkpointed(line: &str) -> Option<CheckpointedPartition> {
    let mut words = line.split(' ');
    let kind = words.next().filter(|kind| [WHOLE, REFUSED].contains(kind))?;
    let topic = words.next().filter(|topic| is_topic(topic))?.to_owned();
    Some(CheckpointedPartition {
        topic,
        partition: words.next()?.parse().ok()?,
        topic_id: uuid_of(words.next()?)?,
        next_offset: words.next()?.parse().ok()?,
        segment_base: words.next()?.parse().ok()?,
        segment_bytes: words.next()?.parse().ok()?,
        first_dirty_offset: words.next()?.parse().ok()?,
        epochs: words
            .map(|word| word.split_once(':').and_then(|(epoch, at)| Some((epoch.parse().ok()?, at.parse().ok()?))))
            .collect::<Option<Epochs>>()?,
        is_refused: kind == REFUSED,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_kafkas() {
        assert_eq!(segment_name(114), "00000000000000000114.log");
        assert_eq!(segment_base("00000000000000000114.log"), Some(114));
        for other in ["114.log", "00000000000000000114.index", "0000000000000000011x.log", "+0000000000000000114.log"] {
            assert_eq!(segment_base(other), None, "{other}");
        }
        assert_eq!(topic_partition("__consumer_offsets-17"), Some(("__consumer_offsets", 17)));
        assert_eq!(topic_partition("a-b-0"), Some(("a-b", 0)));
        for other in ["a", "-0", "a-", "a-x", "a-0.0f1e-delete", "a/b-0"] {
            assert_eq!(topic_partition(other), None, "{other}");
        }
    }

    #[test]
    fn ids_are_written_as_kafka_writes_them() {
        let text = "lBj3j9mkR5CSrYX6wOZ9pg";
        let id = uuid_of(text).unwrap();
        assert_eq!(id >> 120, 0x94);
        assert_eq!(uuid_text(id), text);
        assert_eq!(topic_id_in("version: 0\ntopic_id: lBj3j9mkR5CSrYX6wOZ9pg"), Some(id));
        assert_eq!(topic_id_in(&partition_metadata(7)), Some(7));
        assert_eq!(uuid_of("too short"), None);
    }

    #[test]
    fn epochs_are_read_back() {
        let epochs = vec![(0, 0), (2, 12), (4, 114)];
        assert_eq!(epochs_in("0\n3\n0 0\n2 12\n4 114\n"), Some(epochs.clone()));
        assert_eq!(epochs_in(&epochs_text(&epochs)), Some(epochs));
        assert_eq!(epochs_in("0\n2\n0 0\n"), None, "a line is missing");
    }

    #[test]
    fn a_checkpoint_is_read_back_and_a_damaged_one_is_not() {
        let partition = CheckpointedPartition {
            topic: "a-b".into(),
            partition: 3,
            topic_id: 77,
            next_offset: 1_000,
            segment_base: 900,
            segment_bytes: 12_345,
            first_dirty_offset: 800,
            epochs: vec![(0, 0), (5, 950)],
            is_refused: false,
        };
        let refused = CheckpointedPartition { partition: 4, is_refused: true, ..partition.clone() };
        let checkpoint = Checkpoint { wal_number: 9, partitions: vec![partition, refused] };
        let text = checkpoint.to_text();
        assert_eq!(Checkpoint::of_text(&text), Some(checkpoint));
        assert_eq!(Checkpoint::of_text(&text.replace("1000", "1001")), None);
        assert_eq!(Checkpoint::of_text(&text[..text.len() / 2]), None);
        assert_eq!(Checkpoint::of_text(""), None);
    }
}
