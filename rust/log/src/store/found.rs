//! The checkpoint and the write-ahead files, as a start finds them.

use crate::files::read_file;

use super::{
    Access,
    layout::{self, CHECKPOINT, Checkpoint},
    open::Opening,
    opened::OpenError,
    wal::{WAL_FORMAT, WalContent, later_wal_format, read_wal, was_being_created},
};

impl Opening {
    pub(super) fn read_checkpoint(&mut self) -> Result<Option<Checkpoint>, OpenError> {
        let file = self.store.dir.join(CHECKPOINT);
        let text = read_file(self.store.files.as_ref(), &file).map_err(Opening::io(&self.store.dir))?;
        let Some(text) = text else { return Ok(None) };
        let text = String::from_utf8_lossy(&text);
        if let Some(found) = Checkpoint::later_format(&text) {
            return Err(OpenError::LaterFormat { file, found, known: layout::CHECKPOINT_FORMAT });
        }
        match Checkpoint::of_text(&text) {
            None if self.store.options.access == Access::Salvage => {
                self.report.given_up.push(format!("`{}`: its checksum is wrong", file.display()));
                Ok(None)
            }
            None => Err(OpenError::Damaged { file, reason: "its checksum is wrong".to_owned() }),
            known => Ok(known),
        }
    }

    /// Reads the write-ahead files from the checkpoint on, in order.
    pub(super) fn read_wals(&mut self, checkpoint: Option<&Checkpoint>) -> Result<Vec<(u64, WalContent)>, OpenError> {
        let io = Opening::io(&self.store.dir);
        let first = checkpoint.map_or(0, |checkpoint| checkpoint.wal_number);
        let mut numbers: Vec<u64> =
            self.entries.iter().filter_map(|entry| layout::wal_number(&entry.name)).filter(|n| *n >= first).collect();
        numbers.sort_unstable();
        let path = |number| self.store.dir.join(layout::wal_name(number));
        // Before the first change: a directory that is refused stays as it is.
        for file in numbers.iter().map(|number| path(*number)) {
            let later = later_wal_format(self.store.files.as_ref(), &file).map_err(&io)?;
            if let Some(found) = later {
                return Err(OpenError::LaterFormat { file, found, known: WAL_FORMAT });
            }
        }
        let old: Vec<u64> =
            self.entries.iter().filter_map(|entry| layout::wal_number(&entry.name)).filter(|n| *n < first).collect();
        if !old.is_empty() && self.store.options.access.recovers() {
            // The checkpoint that does not need these files may exist without being durable.
            self.store.files.sync_dir(&self.store.dir).map_err(&io)?;
            old.into_iter().map(path).try_for_each(|old| self.store.files.remove(&old)).map_err(&io)?;
        }
        if self.store.options.access == Access::Salvage {
            let was_damaged = !self.report.given_up.is_empty();
            let wals = self.salvage_wals(checkpoint.map(|_| first), &numbers).map_err(io)?;
            if checkpoint.is_none() && !was_damaged && wals.iter().any(|(_, wal)| !wal.frames.is_empty()) {
                let file = self.store.dir.join(CHECKPOINT);
                self.report.given_up.insert(0, format!("`{}`: it is missing", file.display()));
            }
            return Ok(wals);
        }
        if checkpoint.is_some() && numbers.first() != Some(&first) {
            return Err(OpenError::Damaged { file: path(first), reason: "it is missing".to_owned() });
        }
        let mut read = Vec::with_capacity(numbers.len());
        for number in numbers {
            let file = path(number);
            let wal = read_wal(self.store.files.as_ref(), &file).map_err(&io)?;
            if let Some(position) = wal.as_ref().and_then(|wal| wal.damaged_at) {
                let reason = format!("the frame at byte {position} is wrong, and later ones are not");
                return Err(OpenError::Damaged { file, reason });
            }
            if wal.is_none() && !was_being_created(self.store.files.as_ref(), &file).map_err(&io)? {
                return Err(OpenError::Damaged { file, reason: "its header is wrong".to_owned() });
            }
            read.push((number, wal));
        }
        // A file is created before its predecessor may be removed. Until it has a frame, it need not be whole.
        let is_begun = |wal: &Option<WalContent>| wal.as_ref().is_none_or(|wal| wal.frames.is_empty());
        while (read.len() > 1 || checkpoint.is_none()) && read.last().is_some_and(|(_, wal)| is_begun(wal)) {
            read.pop();
        }
        if checkpoint.is_none() && !read.is_empty() {
            // The first checkpoint is durable before the first frame. Without it, where the frames continue is not known.
            let file = self.store.dir.join(CHECKPOINT);
            return Err(OpenError::Damaged { file, reason: "it is missing".to_owned() });
        }
        let mut wals: Vec<(u64, WalContent)> = Vec::with_capacity(read.len());
        for (number, wal) in read {
            let damaged = |reason: String| OpenError::Damaged { file: path(number), reason };
            let wal = wal.ok_or_else(|| damaged("its header is wrong".to_owned()))?;
            let end = wals.last().map(|(_, before)| before.first_sequence + before.frames.len() as u64);
            if let Some(end) = end.filter(|end| *end != wal.first_sequence) {
                let first = wal.first_sequence;
                return Err(damaged(format!("it begins at frame {first}, but the one before it ends at {end}")));
            }
            wals.push((number, wal));
        }
        Ok(wals)
    }
}
