//! A file system whose changes stay in memory, over another that is only read.

use std::{
    collections::BTreeMap,
    fmt, io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use super::{Access, Entry, File, Files, Lock, read_up_to};

/// A path in memory.
#[derive(Clone)]
enum Node {
    File(Arc<OverlayFile>),
    Dir,
    Removed,
}

/// A copy-on-write file system over another one.
pub struct OverlayFiles {
    below: Arc<dyn Files>,
    nodes: Mutex<BTreeMap<PathBuf, Node>>,
}

impl fmt::Debug for OverlayFiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "OverlayFiles({:?}, {} changed)", self.below, self.nodes().len())
    }
}

impl OverlayFiles {
    /// Creates an overlay without changes.
    pub fn new(below: Arc<dyn Files>) -> OverlayFiles {
        OverlayFiles { below, nodes: Mutex::default() }
    }

    fn nodes(&self) -> MutexGuard<'_, BTreeMap<PathBuf, Node>> {
        self.nodes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn opened(&self, path: &Path, creates: bool) -> io::Result<Arc<OverlayFile>> {
        let mut nodes = self.nodes();
        let found = match nodes.get(path) {
            Some(Node::File(file)) => return Ok(Arc::clone(file)),
            Some(Node::Dir) => return Err(io::ErrorKind::IsADirectory.into()),
            Some(Node::Removed) => Err(io::ErrorKind::NotFound.into()),
            None => self.below.open(path, Access::Read),
        };
        let below = match found {
            Err(error) if creates && error.kind() == io::ErrorKind::NotFound => None,
            found => Some(found?),
        };
        let kept_bytes = below.as_ref().map_or(Ok(0), |file| file.size_bytes())?;
        let content = Mutex::new(Content { kept_bytes, after: Vec::new() });
        let file = Arc::new(OverlayFile { below, content });
        nodes.insert(path.to_owned(), Node::File(Arc::clone(&file)));
        Ok(file)
    }
}

impl Files for OverlayFiles {
    fn open(&self, path: &Path, access: Access) -> io::Result<Arc<dyn File>> {
        Ok(self.opened(path, access == Access::Create)?)
    }

    fn create_dir(&self, path: &Path) -> io::Result<()> {
        self.nodes().insert(path.to_owned(), Node::Dir);
        Ok(())
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let file = self.opened(from, false)?;
        let mut nodes = self.nodes();
        nodes.insert(from.to_owned(), Node::Removed);
        nodes.insert(to.to_owned(), Node::File(file));
        Ok(())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.opened(path, false)?;
        self.nodes().insert(path.to_owned(), Node::Removed);
        Ok(())
    }

    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        self.nodes().insert(path.to_owned(), Node::Removed);
        Ok(())
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<Entry>> {
        let nodes = self.nodes();
        let below = match nodes.get(dir) {
            Some(Node::Removed) => return Err(io::ErrorKind::NotFound.into()),
            Some(Node::Dir) => self.below.list(dir).unwrap_or_default(),
            _ => self.below.list(dir)?,
        };
        let mut entries: BTreeMap<String, bool> = below.into_iter().map(|entry| (entry.name, entry.is_dir)).collect();
        for (path, node) in nodes.iter().filter(|(path, _)| path.parent() == Some(dir)) {
            let Some(name) = path.file_name().and_then(|name| name.to_str()) else { continue };
            match node {
                Node::Removed => entries.remove(name),
                Node::File(_) => entries.insert(name.to_owned(), false),
                Node::Dir => entries.insert(name.to_owned(), true),
            };
        }
        Ok(entries.into_iter().map(|(name, is_dir)| Entry { name, is_dir }).collect())
    }

    fn sync_dir(&self, _: &Path) -> io::Result<()> {
        Ok(())
    }

    fn lock(&self, _: &Path) -> io::Result<Lock> {
        Ok(Box::new(()))
    }
}

/// A file of the lower file system, with its size when opened, and the bytes written after the part that is kept.
struct OverlayFile {
    below: Option<Arc<dyn File>>,
    content: Mutex<Content>,
}

struct Content {
    /// Bytes kept of the lower file.
    kept_bytes: u64,
    after: Vec<u8>,
}

impl Content {
    fn size_bytes(&self) -> u64 {
        self.kept_bytes + self.after.len() as u64
    }
}

impl OverlayFile {
    fn content(&self) -> MutexGuard<'_, Content> {
        self.content.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn read_below(&self, bytes: &mut [u8], position: u64) -> io::Result<usize> {
        self.below.as_ref().map_or(Ok(0), |file| file.read_at(bytes, position))
    }
}

impl fmt::Debug for OverlayFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "OverlayFile({:?}, {} bytes)", self.below, self.content().size_bytes())
    }
}

impl File for OverlayFile {
    fn read_at(&self, bytes: &mut [u8], position: u64) -> io::Result<usize> {
        let content = self.content();
        if position < content.kept_bytes {
            let length = bytes.len().min(usize::try_from(content.kept_bytes - position).unwrap_or(usize::MAX));
            return self.read_below(&mut bytes[..length], position);
        }
        let start = usize::try_from(position - content.kept_bytes).unwrap_or(usize::MAX);
        let rest = content.after.get(start..).unwrap_or_default();
        let length = rest.len().min(bytes.len());
        bytes[..length].copy_from_slice(&rest[..length]);
        Ok(length)
    }

    fn write_at(&self, bytes: &[u8], position: u64) -> io::Result<usize> {
        let mut content = self.content();
        if position < content.kept_bytes {
            let mut copied = vec![0; (content.kept_bytes - position) as usize];
            let below = self.below.as_ref().ok_or(io::ErrorKind::NotFound)?;
            let read = read_up_to(below.as_ref(), &mut copied, position)?;
            copied.truncate(read);
            copied.append(&mut content.after);
            (content.kept_bytes, content.after) = (position, copied);
        }
        let start = (position - content.kept_bytes) as usize;
        let size = content.after.len().max(start + bytes.len());
        content.after.resize(size, 0);
        content.after[start..start + bytes.len()].copy_from_slice(bytes);
        Ok(bytes.len())
    }

    fn truncate(&self, size_bytes: u64) -> io::Result<()> {
        let mut content = self.content();
        content.kept_bytes = content.kept_bytes.min(size_bytes);
        let left = (size_bytes - content.kept_bytes) as usize;
        content.after.resize(left, 0);
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }

    fn size_bytes(&self) -> io::Result<u64> {
        Ok(self.content().size_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::{ForgetfulFiles, read_file, replace_file, write_all_at};

    fn below() -> (ForgetfulFiles, OverlayFiles) {
        let files = ForgetfulFiles::new(64);
        files.create_dir(Path::new("d")).unwrap();
        for name in ["d/a", "d/b"] {
            let file = files.open(Path::new(name), Access::Create).unwrap();
            write_all_at(file.as_ref(), b"0123456789", 0).unwrap();
        }
        let overlay = OverlayFiles::new(Arc::new(files.clone()));
        (files, overlay)
    }

    fn content(files: &dyn Files, path: &str) -> Option<Vec<u8>> {
        read_file(files, Path::new(path)).unwrap()
    }

    fn names(files: &dyn Files) -> Vec<String> {
        files.list(Path::new("d")).unwrap().into_iter().map(|entry| entry.name).collect()
    }

    #[test]
    fn changes_are_seen_above_and_not_below() {
        let (files, overlay) = below();
        let before = files.operations();
        let file = overlay.open(Path::new("d/a"), Access::Write).unwrap();
        for (change, expected) in [
            ((Some(6), &b""[..], 0), &b"012345"[..]),
            ((None, b"xy", 6), b"012345xy"),
            ((None, b"ab", 4), b"0123abxy"),
            ((Some(5), b"-", 7), b"0123a\0\0-"),
        ] {
            let (size_bytes, bytes, position) = change;
            if let Some(size_bytes) = size_bytes {
                file.truncate(size_bytes).unwrap();
            }
            write_all_at(file.as_ref(), bytes, position).unwrap();
            assert_eq!(content(&overlay, "d/a").as_deref(), Some(expected));
            assert_eq!(file.size_bytes().unwrap(), expected.len() as u64);
        }
        replace_file(&overlay, Path::new("d/c"), b"new", true).unwrap();
        overlay.rename(Path::new("d/b"), Path::new("d/e")).unwrap();
        assert_eq!(names(&overlay), ["a", "c", "e"]);
        assert_eq!(content(&overlay, "d/e").as_deref(), Some(&b"0123456789"[..]));
        assert_eq!((content(&overlay, "d/b"), content(&overlay, "d/c")), (None, Some(b"new".to_vec())));
        assert_eq!(overlay.remove(Path::new("d/b")).unwrap_err().kind(), io::ErrorKind::NotFound);
        overlay.remove_dir(Path::new("d")).unwrap();
        assert_eq!(overlay.list(Path::new("d")).unwrap_err().kind(), io::ErrorKind::NotFound);
        assert_eq!((names(&files), files.operations()), (vec!["a".to_owned(), "b".to_owned()], before));
        assert_eq!(content(&files, "d/a").as_deref(), Some(&b"0123456789"[..]));
    }

    #[test]
    fn a_file_keeps_the_size_that_it_had_when_it_was_opened() {
        let (files, overlay) = below();
        let file = overlay.open(Path::new("d/a"), Access::Read).unwrap();
        let grown = files.open(Path::new("d/a"), Access::Write).unwrap();
        write_all_at(grown.as_ref(), b"more", 10).unwrap();
        assert_eq!(file.size_bytes().unwrap(), 10);
        assert_eq!(content(&overlay, "d/a").as_deref(), Some(&b"0123456789"[..]));
    }
}
