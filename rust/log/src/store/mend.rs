//! Recovery and repair of a directory that no server uses: what a start does, and what it only does on request.

use std::{io, path::Path, sync::Arc};

use crate::files::{Files, read_file};

use super::{
    Access, OpenError, Repaired, Report, Store, StoreOptions,
    layout::{self, MARKER, META_PROPERTIES},
    open::Opening,
    wal::{WalContent, salvage_wal},
};

/// Recovers like a start: completes segments from the write-ahead files and cuts torn tails. With `give_up`, also if
/// files shared by all partitions are damaged or missing: then the whole batches in the segments remain, followed by
/// those in the write-ahead files. Errors: those of [`Store::open`]; `Damaged` says what would be given up.
pub fn recover(files: &Arc<dyn Files>, dir: &Path, give_up: bool) -> Result<Report, OpenError> {
    match opened(files, dir, Access::Own) {
        Err(OpenError::Damaged { .. }) if give_up => opened(files, dir, Access::Salvage),
        opened => opened,
    }
    .map(|(_, report)| report)
}

/// Recovers, then removes unreadable bytes from every partition, see [`Repaired`]. Errors: those of [`Store::open`].
pub fn repair(files: &Arc<dyn Files>, dir: &Path) -> Result<(Report, Vec<Repaired>), OpenError> {
    let (store, report) = opened(files, dir, Access::Own)?;
    let repaired = store.repair().map_err(|error| OpenError::Io { dir: dir.to_owned(), error })?;
    Ok((report, repaired))
}

/// Opens an existing directory of rota only.
fn opened(files: &Arc<dyn Files>, dir: &Path, access: Access) -> Result<(Store, Report), OpenError> {
    let meta = read_file(files.as_ref(), &dir.join(META_PROPERTIES));
    let meta = meta.map_err(|error| OpenError::Io { dir: dir.to_owned(), error })?;
    let Some(meta) = meta else { return Err(OpenError::NoData { dir: dir.to_owned() }) };
    if !String::from_utf8_lossy(&meta).lines().any(|line| line.starts_with(MARKER)) {
        return Err(OpenError::Foreign { dir: dir.to_owned() });
    }
    Store::open(Arc::clone(files), dir, StoreOptions { access, ..StoreOptions::default() })
}

impl Opening {
    /// Reads what the write-ahead files `numbers` still have; `first` should exist.
    pub(super) fn salvage_wals(&mut self, first: Option<u64>, numbers: &[u64]) -> io::Result<Vec<(u64, WalContent)>> {
        let path = |number: u64| self.store.dir.join(layout::wal_name(number));
        if let Some(first) = first.filter(|first| numbers.first() != Some(first)) {
            self.report.given_up.push(format!("`{}`: it is missing", path(first).display()));
        }
        let mut wals: Vec<(u64, WalContent)> = Vec::with_capacity(numbers.len());
        for &number in numbers {
            let file = path(number);
            if let Some((wal, missing)) = salvage_wal(self.store.files.as_ref(), &file)? {
                if missing > 0 {
                    self.report.given_up.push(format!("`{}`: {missing} of its frames", file.display()));
                }
                wals.push((number, wal));
            } else {
                self.report.given_up.push(format!("`{}`: its header is wrong", file.display()));
                let kept = self.store.dir.join(layout::kept_name(number));
                self.store.files.rename(&file, &kept)?;
                self.report.kept.push(kept);
            }
        }
        Ok(wals)
    }
}
