//! `Read`: owner, snapshot and tail, in pages of one revision. The first page is a transaction, which names the revision;
//! the others are ranges at it.

use rota_engine::{
    Entry, Epoch, HistoryId, Log, Meta, Nonce, Part, PartitionId, Revision, SnapshotHead,
    entry::Chunk,
    requests::{Contents, Read},
    store::Stored,
};

use super::{is_history, meta_at, read_meta};
use crate::{
    keys::{KeyRange, Keys},
    proto::{KeyValue, OpAnswer, RangeRequest, RangeResponse, TxnRequest, TxnResponse},
    txn::{self, Malformed, get, range, when},
};

/// Keys of the first page, chunks and entries each.
pub const FIRST_KEYS: i64 = 8;
/// Later pages have about so many bytes; a key has 1 MiB at most.
const PAGE_BYTES: usize = 4 << 20;
const PAGE_KEYS: usize = 1_000;
/// A page has at most so many times the keys of the one before it: small keys say nothing of the size of later ones, and an
/// answer that is too large comes for nothing.
const GROWTH: usize = 8;

/// A load that is under way.
#[derive(Clone, Debug)]
pub struct Loading {
    /// Of all pages.
    pub revision: Revision,
    /// What is there so far.
    pub contents: Contents,
    /// What is missing, and how many keys of it to ask for.
    pub missing: Vec<(KeyRange, i64)>,
    partition: PartitionId,
    page_bytes: usize,
}

/// The first page as a transaction, with so many chunks and entries each.
pub fn transaction(read: &Read, keys: &Keys, history: HistoryId, first_keys: i64) -> TxnRequest {
    let pages = vec![
        get(keys.part(read.partition)),
        get(keys.head(read.partition)),
        range(keys.chunks(read.partition), first_keys),
        range(keys.entries(read.partition), first_keys),
    ];
    when(vec![is_history(keys, history)], pages, read_meta(keys))
}

/// Owner and head alone, as a transaction: whether pages of a later revision go on where those of an earlier one ended.
pub fn present(read: &Read, keys: &Keys, history: HistoryId) -> TxnRequest {
    let both = vec![get(keys.part(read.partition)), get(keys.head(read.partition))];
    when(vec![is_history(keys, history)], both, read_meta(keys))
}

/// What the first page says.
pub fn answer(read: &Read, keys: &Keys, answer: &TxnResponse) -> Result<Result<Loading, Meta>, Malformed> {
    if !answer.succeeded {
        return Ok(Err(meta_at(&answer.responses, 0)?));
    }
    let (part, head) = owner_and_head(answer)?;
    let contents = Contents { part, log: Log { head, ..Log::default() } };
    let revision = txn::revision(answer)?;
    let mut loading =
        Loading { revision, contents, missing: Vec::new(), partition: read.partition, page_bytes: PAGE_BYTES };
    for (index, range) in [(2, keys.chunks(read.partition)), (3, keys.entries(read.partition))] {
        loading.add(keys, range, range_at(answer, index)?)?;
    }
    Ok(Ok(loading))
}

fn owner_and_head(answer: &TxnResponse) -> Result<(Option<Part>, Option<Stored<SnapshotHead>>), Malformed> {
    let head = txn::key_at(&answer.responses, 1)?;
    let head =
        head.map(|kv| Stored { value: txn::value_of(kv).unwrap_or(UNREADABLE_HEAD), revision: txn::written_at(kv) });
    Ok((txn::value_at(&answer.responses, 0)?, head))
}

/// In place of a head that rota did not write: its chunk is nowhere, so the load finds the damage. An error would have the
/// load begin anew without end, and without a word about the reason.
const UNREADABLE_HEAD: SnapshotHead = SnapshotHead { upto: -1, epoch: Epoch(0), chunks: 1, checksum: 0 };

/// Likewise in place of an entry: with such a count it leaves a hole.
fn unreadable_entry() -> Entry {
    Entry { nonce: Nonce(0), epoch: Epoch(0), count: -1, bytes: Vec::new() }
}

fn range_at(answer: &TxnResponse, index: usize) -> Result<&RangeResponse, Malformed> {
    match answer.responses.get(index).and_then(|response| response.response.as_ref()) {
        Some(OpAnswer::Range(range)) => Ok(range),
        _ => Err(Malformed("no range where the request has one")),
    }
}

impl Loading {
    /// The next page to ask for.
    pub fn next_page(&mut self) -> Option<(KeyRange, RangeRequest)> {
        let (range, limit) = self.missing.pop()?;
        let (key, range_end) = (range.start.clone(), range.end.clone());
        Some((
            range,
            RangeRequest { key, range_end, limit, revision: self.revision.0 as i64, ..RangeRequest::default() },
        ))
    }

    /// The page did not come in time, or was too large: it is asked for again, with half as many keys, and those after it
    /// are half as large.
    pub fn ask_for_less(&mut self, page: KeyRange, request: &RangeRequest) {
        self.page_bytes = (self.page_bytes / 2).max(1);
        self.missing.push((page, (request.limit / 2).max(1)));
    }

    /// The page is asked for again.
    pub fn ask_again(&mut self, page: KeyRange, request: &RangeRequest) {
        self.missing.push((page, request.limit));
    }

    /// Goes on at the revision of the answer to [`present`]. Only the owner adds to a partition, and only a snapshot, which
    /// has another head, takes anything away: with the same owner and head the missing pages follow those that are there.
    /// False: it has to begin anew.
    pub fn go_on_at(&mut self, answer: &TxnResponse) -> Result<bool, Malformed> {
        let revision = txn::revision(answer)?;
        if !answer.succeeded || revision < self.revision {
            return Ok(false);
        }
        let (part, head) = owner_and_head(answer)?;
        let is_same = part == self.contents.part && head == self.contents.log.head;
        if is_same {
            self.revision = revision;
        }
        Ok(is_same)
    }

    /// Bytes of chunks and entries that are there.
    pub fn bytes(&self) -> usize {
        let Log { chunks, entries, .. } = &self.contents.log;
        chunks.values().map(Vec::len).sum::<usize>() + entries.values().map(|e| e.value.bytes.len()).sum::<usize>()
    }

    /// Takes a page of a range over.
    pub fn add(&mut self, keys: &Keys, range: KeyRange, page: &RangeResponse) -> Result<(), Malformed> {
        let chunks = keys.chunks(self.partition);
        for kv in &page.kvs {
            if kv.key >= chunks.start && kv.key < chunks.end {
                self.add_chunk(kv)?;
            } else {
                self.add_entry(kv)?;
            }
        }
        if let (true, Some(last)) = (page.more, page.kvs.last()) {
            let bytes: usize = page.kvs.iter().map(|kv| kv.key.len() + kv.value.len()).sum();
            let as_large = self.page_bytes * page.kvs.len() / bytes.max(1);
            let limit = as_large.clamp(1, PAGE_KEYS.min(GROWTH * page.kvs.len()));
            // The first key after the last one.
            let start = [&last.key[..], &[0]].concat().into();
            self.missing.push((KeyRange { start, ..range }, limit as i64));
        }
        Ok(())
    }

    fn add_chunk(&mut self, kv: &KeyValue) -> Result<(), Malformed> {
        let key = Keys::chunk_key(&kv.key).ok_or(Malformed("a chunk without a number"))?;
        self.contents.log.chunks.insert(key, Chunk::from(&kv.value[..]));
        Ok(())
    }

    fn add_entry(&mut self, kv: &KeyValue) -> Result<(), Malformed> {
        let base_offset = Keys::base_offset(&kv.key).ok_or(Malformed("an entry without an offset"))?;
        let value = txn::value_of(kv).unwrap_or_else(|_| unreadable_entry());
        let entry = Stored { value, revision: txn::written_at(kv) };
        self.contents.log.entries.insert(base_offset, entry);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use rota_engine::requests::read::Damage;

    use super::*;
    use crate::{
        proto::{ResponseHeader, ResponseOp},
        values::Value,
    };

    const READ: Read = Read { partition: PartitionId(3) };

    fn page(kvs: Vec<(Bytes, Bytes)>) -> ResponseOp {
        let kvs = kvs.into_iter().map(|(key, value)| KeyValue { key, value, ..KeyValue::default() }).collect();
        ResponseOp { response: Some(OpAnswer::Range(RangeResponse { kvs, ..RangeResponse::default() })) }
    }

    /// What is loaded from this head and these entries, of one offset each.
    fn loaded(keys: &Keys, head: Option<Bytes>, entries: Vec<Bytes>) -> Log {
        let head = head.map(|value| (keys.head(READ.partition), value));
        let entries = entries.into_iter().zip(0..).map(|(value, offset)| (keys.entry(READ.partition, offset), value));
        let responses =
            vec![page(Vec::new()), page(head.into_iter().collect()), page(Vec::new()), page(entries.collect())];
        let header = Some(ResponseHeader { revision: 9, ..ResponseHeader::default() });
        let told = TxnResponse { header, succeeded: true, responses };
        answer(&READ, keys, &told).unwrap().expect("it is of this history").contents.log
    }

    #[test]
    fn a_value_that_rota_did_not_write_is_damage_of_its_partition() {
        let keys = Keys::new("/rota");
        let entry = Entry { nonce: Nonce(7), epoch: Epoch(1), count: 1, bytes: vec![1] }.encode();
        let other = Bytes::from_static(b"\xff of another program");
        assert_eq!(loaded(&keys, None, vec![entry.clone(), entry.clone()]).end(), Ok(2));
        assert_eq!(loaded(&keys, None, vec![entry.clone(), other.clone()]).end(), Err(Damage::Hole(1)));
        assert_eq!(loaded(&keys, None, vec![other.clone(), entry]).end(), Err(Damage::Hole(0)));
        assert_eq!(loaded(&keys, Some(other), Vec::new()).snapshot(), Err(Damage::ChunkMissing(0)));
    }
}
