//! The write-ahead file shared by all partitions: one frame and one sync per pass.
//!
//! A file begins with a header: magic `rotaWAL1`, salt u64, first sequence number u64, mode u8 (0 data is in it, 1 it
//! is not), CRC-32C u32; then frames, each at a multiple of eight bytes: magic u32, payload length u32, sequence number
//! u64, CRC-32C u32 of salt, length, sequence and payload, payload. All big-endian. A payload is a row of entries:
//!
//! | kind u8 | fields |
//! |---|---|
//! | 1 declare | handle u32, partition i32, topic id u128, length u8, topic |
//! | 2 batches | handle u32, segment base i64, length u32, whole batches |
//! | 3 epoch | handle u32, epoch i32, first offset i64 |
//! | 4 delete | handle u32 |
//!
//! Every file declares its handles. Frame n + 1 is written once n is durable, so only the last frame can be torn; a
//! damaged frame before a valid one is damage.

use std::{io, path::Path, sync::Arc, time::Instant};

use crate::{
    Histogram,
    files::{Access, File, Files, read_file, read_up_to, write_all_at},
};

use super::layout::{is_topic, wal_name};

/// The format of the files that this release writes: the last character of their magic. Every format's header has the
/// checksum at the same place.
pub const WAL_FORMAT: u64 = 1;
const FILE_MAGIC: &[u8; 8] = b"rotaWAL1";
const FILE_HEADER_BYTES: usize = 32;
const FRAME_MAGIC: [u8; 4] = *b"rWfr";
const FRAME_HEADER_BYTES: usize = 20;
const ALIGN: usize = 8;

/// An entry of a frame; the module describes the format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WalEntry<'a> {
    /// Binds `handle` to a partition in this file.
    Declare {
        /// The handle.
        handle: u32,
        /// The topic.
        topic: &'a str,
        /// The partition number.
        partition: i32,
        /// The topic id.
        topic_id: u128,
    },
    /// Batches appended to one segment.
    Batches {
        /// The partition's handle.
        handle: u32,
        /// Base offset of the segment.
        segment_base: i64,
        /// Whole batches with assigned offsets.
        bytes: &'a [u8],
    },
    /// A new epoch of a partition.
    Epoch {
        /// The partition's handle.
        handle: u32,
        /// The epoch.
        epoch: i32,
        /// Its first offset.
        start_offset: i64,
    },
    /// A deleted partition.
    Delete {
        /// The partition's handle.
        handle: u32,
    },
}

impl WalEntry<'_> {
    /// Appends the entry to a payload.
    pub fn write(&self, payload: &mut Vec<u8>) {
        match *self {
            WalEntry::Declare { handle, topic, partition, topic_id } => {
                payload.push(1);
                payload.extend(handle.to_be_bytes());
                payload.extend(partition.to_be_bytes());
                payload.extend(topic_id.to_be_bytes());
                payload.push(topic.len() as u8);
                payload.extend(topic.as_bytes());
            }
            WalEntry::Batches { handle, segment_base, bytes } => {
                payload.push(2);
                payload.extend(handle.to_be_bytes());
                payload.extend(segment_base.to_be_bytes());
                payload.extend((bytes.len() as u32).to_be_bytes());
                payload.extend(bytes);
            }
            WalEntry::Epoch { handle, epoch, start_offset } => {
                payload.push(3);
                payload.extend(handle.to_be_bytes());
                payload.extend(epoch.to_be_bytes());
                payload.extend(start_offset.to_be_bytes());
            }
            WalEntry::Delete { handle } => {
                payload.push(4);
                payload.extend(handle.to_be_bytes());
            }
        }
    }

    /// Returns the bytes that [`WalEntry::write`] appends.
    fn size_bytes(&self) -> usize {
        match self {
            WalEntry::Declare { topic, .. } => 26 + topic.len(),
            WalEntry::Batches { bytes, .. } => 17 + bytes.len(),
            WalEntry::Epoch { .. } => 17,
            WalEntry::Delete { .. } => 5,
        }
    }
}

/// Iterates over the entries of a payload; yields `None` for a malformed one and ends.
pub fn entries(payload: &[u8]) -> impl Iterator<Item = Option<WalEntry<'_>>> {
    let mut rest = payload;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let entry = read_entry(&mut rest);
        if entry.is_none() {
            rest = &[];
        }
        Some(entry)
    })
}

fn take<const N: usize>(rest: &mut &[u8]) -> Option<[u8; N]> {
    let (field, after) = rest.split_first_chunk::<N>()?;
    *rest = after;
    Some(*field)
}

fn read_entry<'a>(rest: &mut &'a [u8]) -> Option<WalEntry<'a>> {
    let [kind] = take(rest)?;
    let handle = u32::from_be_bytes(take(rest)?);
    Some(match kind {
        1 => {
            let partition = i32::from_be_bytes(take(rest)?);
            let topic_id = u128::from_be_bytes(take(rest)?);
            let [length] = take(rest)?;
            let (topic, after) = rest.split_at_checked(usize::from(length))?;
            *rest = after;
            let topic = std::str::from_utf8(topic).ok().filter(|topic| is_topic(topic))?;
            WalEntry::Declare { handle, topic, partition, topic_id }
        }
        2 => {
            let segment_base = i64::from_be_bytes(take(rest)?);
            let length = u32::from_be_bytes(take(rest)?);
            let (bytes, after) = rest.split_at_checked(length as usize)?;
            *rest = after;
            WalEntry::Batches { handle, segment_base, bytes }
        }
        3 => WalEntry::Epoch {
            handle,
            epoch: i32::from_be_bytes(take(rest)?),
            start_offset: i64::from_be_bytes(take(rest)?),
        },
        4 => WalEntry::Delete { handle },
        _ => return None,
    })
}

/// The write-ahead file in use.
#[derive(Debug)]
pub struct Wal {
    file: Arc<dyn File>,
    /// The number in its name.
    pub number: u64,
    salt: u64,
    next_sequence: u64,
    position: u64,
    /// Allocated bytes, zero from `position` on. Overwriting them needs no new block.
    reserved_bytes: u64,
    reserve_step_bytes: u64,
    frame: Vec<u8>,
}

impl Wal {
    /// Creates a file durably.
    pub fn create(
        files: &dyn Files,
        dir: &Path,
        number: u64,
        first_sequence: u64,
        has_data: bool,
        reserve_step_bytes: u64,
    ) -> io::Result<Wal> {
        let path = dir.join(wal_name(number));
        let file = files.open(&path, Access::Create)?;
        file.truncate(0)?;
        let salt = salt_of(number, first_sequence);
        let mut header = Vec::with_capacity(FILE_HEADER_BYTES);
        header.extend(FILE_MAGIC);
        header.extend(salt.to_be_bytes());
        header.extend(first_sequence.to_be_bytes());
        header.push(u8::from(!has_data));
        header.extend([0; 3]);
        header.extend(crc32c::crc32c(&header).to_be_bytes());
        let mut wal = Wal {
            file,
            number,
            salt,
            next_sequence: first_sequence,
            position: FILE_HEADER_BYTES as u64,
            reserved_bytes: 0,
            reserve_step_bytes: reserve_step_bytes.max(FILE_HEADER_BYTES as u64),
            frame: Vec::new(),
        };
        wal.reserve(0)?;
        write_all_at(wal.file.as_ref(), &header, 0)?;
        wal.file.sync()?;
        files.sync_dir(dir)?;
        Ok(wal)
    }

    /// Continues a file without frames.
    pub fn resume(
        files: &dyn Files,
        dir: &Path,
        number: u64,
        content: &WalContent,
        reserve_step_bytes: u64,
    ) -> io::Result<Wal> {
        let file = files.open(&dir.join(wal_name(number)), Access::Write)?;
        let mut wal = Wal::ended(number, content.first_sequence);
        wal.reserved_bytes = file.size_bytes()?;
        wal.file = file;
        wal.position = FILE_HEADER_BYTES as u64;
        wal.salt = salt_of(number, content.first_sequence);
        wal.reserve_step_bytes = reserve_step_bytes.max(FILE_HEADER_BYTES as u64);
        Ok(wal)
    }

    /// Represents a file that cannot be written: before the first one, or after the last frame.
    pub fn ended(number: u64, next_sequence: u64) -> Wal {
        Wal {
            file: Arc::new(NoFile),
            number,
            salt: 0,
            next_sequence,
            position: 0,
            reserved_bytes: 0,
            reserve_step_bytes: 1,
            frame: Vec::new(),
        }
    }

    /// Whether this is the result of [`Wal::ended`].
    pub fn has_ended(&self) -> bool {
        self.position == 0
    }

    /// Returns the bytes used.
    pub fn size_bytes(&self) -> u64 {
        self.position
    }

    /// Returns the sequence number of the next frame.
    pub fn next_sequence(&self) -> u64 {
        self.next_sequence
    }

    /// Allocates room for a payload. After an error the file is unchanged.
    pub fn reserve(&mut self, payload_bytes: usize) -> io::Result<()> {
        let needed_bytes = self.position + (FRAME_HEADER_BYTES + payload_bytes + ALIGN) as u64;
        if needed_bytes > self.reserved_bytes {
            let target_bytes = needed_bytes.next_multiple_of(self.reserve_step_bytes);
            let zeros = vec![0; (target_bytes - self.reserved_bytes) as usize];
            write_all_at(self.file.as_ref(), &zeros, self.reserved_bytes)?;
            self.reserved_bytes = target_bytes;
        }
        Ok(())
    }

    /// Writes a frame and, with `syncs`, syncs the file and adds the duration, also of a failed sync. After an error
    /// the content of the disk is unknown.
    pub fn append(&mut self, payload: &[u8], syncs: Option<&mut Histogram>) -> io::Result<()> {
        let length = payload.len() as u32;
        let crc = frame_crc(self.salt, length, self.next_sequence, payload);
        self.frame.clear();
        self.frame.extend(FRAME_MAGIC);
        self.frame.extend(length.to_be_bytes());
        self.frame.extend(self.next_sequence.to_be_bytes());
        self.frame.extend(crc.to_be_bytes());
        self.frame.extend_from_slice(payload);
        self.frame.resize(self.frame.len().next_multiple_of(ALIGN), 0);
        write_all_at(self.file.as_ref(), &self.frame, self.position)?;
        if let Some(syncs) = syncs {
            let began = Instant::now();
            let synced = self.file.sync();
            syncs.observe(began.elapsed());
            synced?;
        }
        self.position += self.frame.len() as u64;
        self.next_sequence += 1;
        Ok(())
    }
}

/// The salt differs between files, so that a frame is valid in its own file only.
fn salt_of(number: u64, first_sequence: u64) -> u64 {
    number.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ first_sequence
}

/// The file of [`Wal::ended`].
#[derive(Debug)]
struct NoFile;

impl File for NoFile {
    fn read_at(&self, _: &mut [u8], _: u64) -> io::Result<usize> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn write_at(&self, _: &[u8], _: u64) -> io::Result<usize> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn truncate(&self, _: u64) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn sync(&self) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn size_bytes(&self) -> io::Result<u64> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

fn frame_crc(salt: u64, length: u32, sequence: u64, payload: &[u8]) -> u32 {
    let crc = crc32c::crc32c(&salt.to_be_bytes());
    let crc = crc32c::crc32c_append(crc, &length.to_be_bytes());
    let crc = crc32c::crc32c_append(crc, &sequence.to_be_bytes());
    crc32c::crc32c_append(crc, payload)
}

/// The content of a write-ahead file.
#[derive(Debug)]
pub struct WalContent {
    /// Whether it contains appends.
    pub has_data: bool,
    /// Sequence number of its first frame.
    pub first_sequence: u64,
    /// Payloads in order.
    pub frames: Vec<Vec<u8>>,
    /// Position of the first damaged frame with a valid one after it.
    pub damaged_at: Option<usize>,
    /// Bytes of an unfinished frame.
    pub torn_bytes: usize,
    /// Byte range of the last valid frame.
    last_frame: Option<std::ops::Range<usize>>,
}

impl WalContent {
    /// Iterates over the entries of a file that [`read_wal`] read, each with its end position. Errors: `InvalidData` at
    /// an entry of another version; the rest of its frame cannot be read.
    pub fn entries(&self) -> impl Iterator<Item = io::Result<(u64, WalEntry<'_>)>> {
        let mut frame_at = FILE_HEADER_BYTES;
        self.frames.iter().flat_map(move |payload| {
            let mut at = frame_at + FRAME_HEADER_BYTES;
            frame_at = (at + payload.len()).next_multiple_of(ALIGN);
            entries(payload).map(move |entry| {
                let entry = entry.ok_or_else(|| wrong("a write-ahead frame has an entry of another version"))?;
                at += entry.size_bytes();
                Ok((at as u64, entry))
            })
        })
    }
}

/// Returns an error for bytes that no version of rota writes.
pub(super) fn wrong(reason: impl Into<String>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, reason.into())
}

/// Makes a file that was read durable. Writes the last frame again first: its sync may have failed, and then the
/// operating system shows what the disk lacks. Earlier frames were synced before it was written.
pub fn secure(files: &dyn Files, path: &Path, content: &WalContent) -> io::Result<()> {
    let Some(frame) = content.last_frame.clone() else { return Ok(()) };
    let file = files.open(path, Access::Write)?;
    let mut bytes = vec![0; frame.len()];
    if read_up_to(file.as_ref(), &mut bytes, frame.start as u64)? < bytes.len() {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    write_all_at(file.as_ref(), &bytes, frame.start as u64)?;
    file.sync()
}

/// Returns the number of a write-ahead file's format if it is a later one. A file that does not exist has none: the
/// server may delete it while its directory is read.
pub fn later_wal_format(files: &dyn Files, path: &Path) -> io::Result<Option<u64>> {
    let file = match files.open(path, Access::Read) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        opened => opened?,
    };
    let mut header = [0; FILE_HEADER_BYTES];
    let read = read_up_to(file.as_ref(), &mut header, 0)?;
    let crc = u32::from_be_bytes([header[28], header[29], header[30], header[31]]);
    if read < FILE_HEADER_BYTES || header[..7] != FILE_MAGIC[..7] || crc32c::crc32c(&header[..28]) != crc {
        return Ok(None);
    }
    Ok((header[7] as char).to_digit(36).map(u64::from).filter(|format| *format > WAL_FORMAT))
}

/// Whether a file without a header was being created: the header is durable before anything follows it.
pub fn was_being_created(files: &dyn Files, path: &Path) -> io::Result<bool> {
    let bytes = read_file(files, path)?.unwrap_or_default();
    Ok(bytes.iter().skip(FILE_HEADER_BYTES).all(|byte| *byte == 0))
}

/// Reads a write-ahead file; `None` without a whole header, see [`was_being_created`].
pub fn read_wal(files: &dyn Files, path: &Path) -> io::Result<Option<WalContent>> {
    let bytes = read_file(files, path)?.unwrap_or_default();
    let Some((header, _)) = bytes.split_first_chunk::<FILE_HEADER_BYTES>() else { return Ok(None) };
    let field = |at: usize| u64::from_be_bytes(header[at..at + 8].try_into().expect("eight bytes"));
    let crc = u32::from_be_bytes([header[28], header[29], header[30], header[31]]);
    if &header[..8] != FILE_MAGIC || crc32c::crc32c(&header[..28]) != crc {
        return Ok(None);
    }
    let (salt, first_sequence) = (field(8), field(16));
    let mut content = WalContent {
        has_data: header[24] == 0,
        first_sequence,
        frames: Vec::new(),
        damaged_at: None,
        torn_bytes: 0,
        last_frame: None,
    };
    let mut at = FILE_HEADER_BYTES;
    let mut sequence = first_sequence;
    while let Some((found, payload)) = frame_at(&bytes, at, salt).filter(|(found, _)| *found == sequence) {
        content.frames.push(payload.to_vec());
        content.last_frame = Some(at..at + FRAME_HEADER_BYTES + payload.len());
        at = (at + FRAME_HEADER_BYTES + payload.len()).next_multiple_of(ALIGN);
        sequence = found + 1;
    }
    let end = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
    content.torn_bytes = end.saturating_sub(at);
    let later =
        (at..end).step_by(ALIGN).find(|later| frame_at(&bytes, *later, salt).is_some_and(|(n, _)| n > sequence));
    content.damaged_at = later.map(|_| at);
    Ok(Some(content))
}

/// Reads every valid frame of a damaged file, and counts the missing ones between them; `None` without a header.
pub fn salvage_wal(files: &dyn Files, path: &Path) -> io::Result<Option<(WalContent, u64)>> {
    let Some(mut content) = read_wal(files, path)? else { return Ok(None) };
    let bytes = read_file(files, path)?.unwrap_or_default();
    let Some(salt) = bytes.get(8..16).and_then(|salt| salt.try_into().ok()).map(u64::from_be_bytes) else {
        return Ok(None);
    };
    let (mut sequence, mut missing) = (content.first_sequence + content.frames.len() as u64, 0);
    let mut at = content.damaged_at.unwrap_or(bytes.len());
    while at < bytes.len() {
        match frame_at(&bytes, at, salt).filter(|(found, _)| *found >= sequence) {
            Some((found, payload)) => {
                missing += found - sequence;
                content.frames.push(payload.to_vec());
                at += FRAME_HEADER_BYTES + payload.len();
                sequence = found + 1;
            }
            None => at += 1,
        }
        at = at.next_multiple_of(ALIGN);
    }
    Ok(Some((content, missing)))
}

/// Reads a valid frame at `at`: its sequence number and payload.
fn frame_at(bytes: &[u8], at: usize, salt: u64) -> Option<(u64, &[u8])> {
    let mut rest = bytes.get(at..)?;
    if take::<4>(&mut rest)? != FRAME_MAGIC {
        return None;
    }
    let length = u32::from_be_bytes(take(&mut rest)?);
    let sequence = u64::from_be_bytes(take(&mut rest)?);
    let crc = u32::from_be_bytes(take(&mut rest)?);
    let payload = rest.get(..length as usize)?;
    (frame_crc(salt, length, sequence, payload) == crc).then_some((sequence, payload))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::ForgetfulFiles;

    fn wal_of(frames: &[&[u8]]) -> (ForgetfulFiles, std::path::PathBuf) {
        let files = ForgetfulFiles::new(64);
        let mut wal = Wal::create(&files, Path::new(""), 3, 40, true, 256).unwrap();
        for frame in frames {
            wal.reserve(frame.len()).unwrap();
            wal.append(frame, Some(&mut Histogram::default())).unwrap();
        }
        assert_eq!(wal.next_sequence(), 40 + frames.len() as u64);
        (files, wal_name(3).into())
    }

    #[test]
    fn frames_are_read_back_in_order() {
        let (files, path) = wal_of(&[b"one", b"", &[7; 500]]);
        let content = read_wal(&files, &path).unwrap().unwrap();
        assert_eq!(content.frames, [b"one".to_vec(), vec![], vec![7; 500]]);
        assert!(content.has_data && content.damaged_at.is_none() && content.torn_bytes == 0);
        assert_eq!(content.first_sequence, 40);
    }

    #[test]
    fn a_file_that_vanishes_has_no_later_format() {
        assert_eq!(later_wal_format(&ForgetfulFiles::new(64), Path::new("rota.wal.0000000003")).unwrap(), None);
    }

    #[test]
    fn a_bad_last_frame_is_torn_and_a_bad_one_before_a_good_one_is_damage() {
        for (at, damaged) in [(FILE_HEADER_BYTES + FRAME_HEADER_BYTES, true), (FILE_HEADER_BYTES + 32 + 25, false)] {
            let (files, path) = wal_of(&[b"first one", b"second one"]);
            files.damage(&path, |bytes| bytes[at] ^= 1).unwrap();
            let content = read_wal(&files, &path).unwrap().unwrap();
            assert_eq!(content.damaged_at.is_some(), damaged);
            assert!(content.torn_bytes > 0);
            assert_eq!(content.frames.len(), usize::from(!damaged));
        }
    }

    #[test]
    fn entries_are_read_back_and_any_cut_is_noticed() {
        let written = [
            WalEntry::Declare { handle: 1, topic: "t", partition: 2, topic_id: 3 },
            WalEntry::Batches { handle: 1, segment_base: 9, bytes: b"batch" },
            WalEntry::Epoch { handle: 1, epoch: 4, start_offset: 5 },
            WalEntry::Delete { handle: 1 },
        ];
        let mut payload = Vec::new();
        for entry in &written {
            let before = payload.len();
            entry.write(&mut payload);
            assert_eq!(payload.len() - before, entry.size_bytes());
        }
        let read: Option<Vec<_>> = entries(&payload).collect();
        assert_eq!(read.as_deref(), Some(&written[..]));
        for cut in 1..payload.len() {
            let read: Vec<_> = entries(&payload[..cut]).collect();
            assert!(read.iter().flatten().zip(&written).all(|(read, written)| read == written));
            assert!(read.len() < written.len() || read.contains(&None));
        }
    }
}
