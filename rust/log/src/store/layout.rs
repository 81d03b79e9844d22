//! Names and small files of a data directory, as in Kafka where Kafka has them: `TOPIC-PARTITION` directories, segments
//! named after their first offset, `partition.metadata`, `leader-epoch-checkpoint`, `meta.properties`.

use std::fmt::Write as _;

use crate::files::Entry;

/// Identifies the owner of the directory. Kafka writes this file, too, without [`MARKER`].
pub const META_PROPERTIES: &str = "meta.properties";
/// The property that marks a directory of rota.
pub const MARKER: &str = "rota.version";
/// The formats of a directory that this release knows, by the properties that name them: Kafka's and ours.
pub const FORMATS: [(&str, u64); 2] = [("version", 1), (MARKER, 1)];
/// The lock file of an open directory.
pub const LOCK: &str = ".lock";
/// The durable ends of the segments, see [`Checkpoint`].
pub const CHECKPOINT: &str = "rota.checkpoint";
/// Epochs of a partition with their first offsets.
pub const LEADER_EPOCHS: &str = "leader-epoch-checkpoint";
/// The topic id of a partition.
pub const PARTITION_METADATA: &str = "partition.metadata";
/// Suffix of a segment during compaction; removed after a crash.
pub const CLEANED: &str = "cleaned";
/// Suffix of a segment before its repair; never read.
pub const DAMAGED: &str = "damaged";
/// Suffix of a compacted segment that will replace its sources.
pub const SWAP: &str = "swap";

const WAL: &str = "rota.wal.";
const KEPT: &str = "rota.kept.";
/// Maximum length of a topic name.
const TOPIC_CHARACTERS_MAX: usize = 249;

/// Returns the file name of a segment.
pub fn segment_name(base_offset: i64) -> String {
    format!("{base_offset:020}.log")
}

/// Returns the base offset in a segment's file name.
pub fn segment_base(name: &str) -> Option<i64> {
    let digits = name.strip_suffix(".log").filter(|digits| digits.len() == 20)?;
    digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse().ok()).flatten()
}

/// Returns the file name of a write-ahead file.
pub fn wal_name(number: u64) -> String {
    format!("{WAL}{number:010}")
}

/// Returns the name of a write-ahead file that is kept for repairs only.
pub fn kept_name(number: u64) -> String {
    format!("{KEPT}{number:010}")
}

/// Whether this is a kept write-ahead file. The directory of a topic may begin with the same words.
pub fn is_kept(entry: &Entry) -> bool {
    !entry.is_dir && entry.name.strip_prefix(KEPT).is_some_and(|number| number.parse::<u64>().is_ok())
}

/// Returns the number in a write-ahead file's name.
pub fn wal_number(name: &str) -> Option<u64> {
    name.strip_prefix(WAL)?.parse().ok()
}

/// Whether this is the temporary name of an unfinished file replacement.
pub fn is_temporary(name: &str) -> bool {
    name.strip_suffix("tmp").is_some_and(|stem| stem.ends_with('.'))
}

/// Returns the name of a partition's directory.
pub fn partition_name(topic: &str, partition: i32) -> String {
    format!("{topic}-{partition}")
}

/// Returns topic and partition of a directory's name.
pub fn topic_partition(name: &str) -> Option<(&str, i32)> {
    let (topic, partition) = name.rsplit_once('-')?;
    let partition: i32 = partition.parse().ok().filter(|partition| *partition >= 0)?;
    is_topic(topic).then_some((topic, partition))
}

/// Whether this is a valid topic name: Kafka's characters, which are also valid in file names.
pub fn is_topic(name: &str) -> bool {
    let legal = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    (1..=TOPIC_CHARACTERS_MAX).contains(&name.len()) && name.bytes().all(legal) && name != "." && name != ".."
}

/// Formats `partition.metadata`.
pub fn partition_metadata(topic_id: u128) -> String {
    format!("version: 0\ntopic_id: {}", uuid_text(topic_id))
}

/// Parses the topic id in `partition.metadata`.
pub fn topic_id_in(text: &str) -> Option<u128> {
    text.lines().find_map(|line| line.strip_prefix("topic_id: ")).and_then(|text| uuid_of(text.trim()))
}

const URL_SAFE: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// Formats an id as Kafka does: URL-safe base64 without padding, 22 characters.
pub fn uuid_text(id: u128) -> String {
    let digit = |shift: u32| char::from(URL_SAFE[(id >> shift) as usize & 63]);
    let last = char::from(URL_SAFE[((id & 3) << 4) as usize]);
    (0..21).map(|at| digit(122 - at * 6)).chain([last]).collect()
}

/// Parses the result of [`uuid_text`].
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

/// Epochs with their first offsets, oldest first.
pub type Epochs = Vec<(i32, i64)>;

/// Formats `leader-epoch-checkpoint`.
pub fn epochs_text(epochs: &[(i32, i64)]) -> String {
    let mut text = format!("0\n{}\n", epochs.len());
    for (epoch, start) in epochs {
        let _ = writeln!(text, "{epoch} {start}");
    }
    text
}

/// Parses `leader-epoch-checkpoint`; `None` if it is malformed.
pub fn epochs_in(text: &str) -> Option<Epochs> {
    let mut lines = text.lines();
    (lines.next()? == "0").then_some(())?;
    let count: usize = lines.next()?.parse().ok()?;
    let epochs: Option<Epochs> = lines
        .map(|line| line.split_once(' ').and_then(|(epoch, start)| Some((epoch.parse().ok()?, start.parse().ok()?))))
        .collect();
    epochs.filter(|epochs| epochs.len() == count)
}

/// The durable ends of all partitions' segments. Later records are in the write-ahead files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Checkpoint {
    /// The first write-ahead file needed.
    pub wal_number: u64,
    /// The state of each partition.
    pub partitions: Vec<CheckpointedPartition>,
}

/// One partition of a [`Checkpoint`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckpointedPartition {
    /// The topic.
    pub topic: String,
    /// The partition number.
    pub partition: i32,
    /// The topic id.
    pub topic_id: u128,
    /// The next offset.
    pub next_offset: i64,
    /// Base offset of the newest segment.
    pub segment_base: i64,
    /// Size of the newest segment in bytes.
    pub segment_bytes: u64,
    /// Offset from which compaction has not run.
    pub first_dirty_offset: i64,
    /// Epochs, oldest first.
    pub epochs: Epochs,
    /// Whether the partition was damaged: later records are in its segments or in kept write-ahead files.
    pub is_refused: bool,
}

impl CheckpointedPartition {
    /// Returns what is known of a partition that no checkpoint names.
    pub fn unknown(topic: &str, partition: i32, topic_id: u128) -> CheckpointedPartition {
        CheckpointedPartition {
            topic: topic.to_owned(),
            partition,
            topic_id,
            next_offset: 0,
            segment_base: 0,
            segment_bytes: 0,
            first_dirty_offset: 0,
            epochs: Epochs::default(),
            is_refused: false,
        }
    }
}

/// The first word of a checkpoint, before the number of its format.
const CHECKPOINT_HEAD: &str = "rota-checkpoint ";
/// The format of the checkpoints that this release writes. Every format ends with the line of the checksum.
pub const CHECKPOINT_FORMAT: u64 = 1;

/// A property of `meta.properties` that names a later format: its number, and the one that is known.
pub fn later_format(meta: &str) -> Option<(u64, u64)> {
    FORMATS.iter().find_map(|(name, known)| {
        let value = |line: &str| line.strip_prefix(name)?.strip_prefix('=')?.trim().parse::<u64>().ok();
        meta.lines().find_map(value).filter(|found| found > known).map(|found| (found, *known))
    })
}

/// The lines of a file before its last one, `crc32c` and the checksum of them; `None` if they are not those.
fn checked(text: &str) -> Option<&str> {
    let summed = text.rfind("crc32c ")?;
    let crc = u32::from_str_radix(text[summed..].trim_end().strip_prefix("crc32c ")?, 16).ok()?;
    (crc32c::crc32c(&text.as_bytes()[..summed]) == crc).then_some(&text[..summed])
}

impl Checkpoint {
    /// Formats the checkpoint: lines of words, and their checksum.
    pub fn to_text(&self) -> String {
        let mut text = format!("{CHECKPOINT_HEAD}{CHECKPOINT_FORMAT}\nwal {}\n", self.wal_number);
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

    /// Parses the result of [`Checkpoint::to_text`]; `None` if it is damaged.
    pub fn of_text(text: &str) -> Option<Checkpoint> {
        let mut lines = checked(text)?.lines();
        let format = lines.next()?.strip_prefix(CHECKPOINT_HEAD)?;
        (format.parse() == Ok(CHECKPOINT_FORMAT)).then_some(())?;
        let wal_number = lines.next()?.strip_prefix("wal ")?.parse().ok()?;
        let partitions = lines.map(checkpointed).collect::<Option<Vec<_>>>()?;
        Some(Checkpoint { wal_number, partitions })
    }

    /// The number of a whole checkpoint's format, if that is a later one.
    pub fn later_format(text: &str) -> Option<u64> {
        let format = checked(text)?.lines().next()?.strip_prefix(CHECKPOINT_HEAD)?;
        format.parse().ok().filter(|format| *format > CHECKPOINT_FORMAT)
    }
}

/// The first word of a partition's line.
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
    fn a_kept_file_has_a_number_and_is_no_directory() {
        let entry = |name: &str, is_dir| Entry { name: name.to_owned(), is_dir };
        assert!(is_kept(&entry(&kept_name(7), false)));
        assert!(!is_kept(&entry("rota.kept.orders-0", true)));
        assert!(!is_kept(&entry("rota.kept.orders-0", false)));
        assert!(!is_kept(&entry(&kept_name(7), true)));
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
        assert_eq!(Checkpoint::later_format(&text), None);
        assert_eq!(Checkpoint::of_text(&text.replace("1000", "1001")), None);
        assert_eq!(Checkpoint::of_text(&text[..text.len() / 2]), None);
        assert_eq!(Checkpoint::of_text(""), None);
    }
}
