//! Partitions on their way between an engine and a data directory, whose records both keep as the same batches.

use rota_engine::{
    Chunk, Epoch, Incarnation, Log, NodeId, Part, PartitionId, Request, View,
    entry::{Prev, SnapshotHead, checksum},
    requests::{
        Body, Claim, Claimed, Content, Contents, Fence, HeadPut, PutChunk, PutHead, PutNote, Read, Release, Silence,
        Sweep,
    },
};
use rota_log::{batches, store::compact_batches};

use crate::{
    host::{DELETE_RETENTION_MS, chunks},
    notes::CLUSTER,
    operating::{ChangeError, Operator},
    operator::Refused,
};

/// The owner of a partition while it is imported. No server has this id.
const IMPORT: NodeId = NodeId(-1);

/// A note that an import has to write: its name, what is there, and the new value.
pub type NoteChange = (String, Option<Vec<u8>>, Option<Vec<u8>>);

fn failed(reason: String) -> ChangeError {
    ChangeError::Refused(Refused::Impossible(reason))
}

/// A partition of the engine as a data directory has it.
#[derive(Debug)]
pub struct Exported {
    /// The epoch of its owner; 0: it never had one.
    pub epoch: i32,
    /// The batches in the order of offsets, each once.
    pub batches: Vec<u8>,
    /// Epochs with their first offsets; the owner's is the last one.
    pub epochs: Vec<(i32, i64)>,
}

/// Errors: what is damaged.
fn exported(part: Option<Part>, log: &Log) -> Result<Exported, String> {
    let damaged = |damage| format!("its content is damaged: {damage:?}");
    let end = log.end().map_err(damaged)?;
    let (mut ordered, mut next) = (Vec::new(), 0);
    let mut epochs: Vec<(i32, i64)> = Vec::new();
    let mut begin = |epoch: i32, at: i64| {
        if epochs.last().is_none_or(|(last, _)| *last < epoch) {
            epochs.push((epoch, at));
        }
    };
    let chunks = log.snapshot().map_err(damaged)?.into_iter();
    for part in chunks.chain(log.entries.values().map(|entry| &entry.value.bytes)) {
        for batch in batches(part) {
            let batch = batch.map_err(|error| error.to_string())?;
            batch.check_crc().map_err(|error| error.to_string())?;
            // The newest entry stays although the snapshot has it.
            if batch.header().base_offset >= next {
                begin(batch.header().leader_epoch, batch.header().base_offset);
                ordered.extend_from_slice(batch.bytes());
                next = batch.header().last_offset() + 1;
            }
        }
    }
    let epoch = part.map_or(0, |part| part.epoch.0);
    begin(epoch, end);
    Ok(Exported { epoch, batches: ordered, epochs })
}

/// A snapshot of whole batches, and the epoch after theirs. What an open transaction may decide about stays as it is.
fn snapshot(part: &[u8], now_ms: i64) -> Result<(Vec<Chunk>, Epoch), String> {
    let (upto, mut kept) = compact_batches(&[part], now_ms, DELETE_RETENTION_MS).map_err(|error| error.to_string())?;
    let mut last = 0;
    for batch in batches(part) {
        let batch = batch.map_err(|error| error.to_string())?;
        last = last.max(batch.header().leader_epoch);
        if batch.header().base_offset >= upto {
            kept.push(batch.bytes().to_vec());
        }
    }
    Ok((chunks(kept), Epoch(last).next()))
}

impl Operator {
    /// A partition at one revision.
    pub fn export(&self, partition: PartitionId) -> Result<Exported, ChangeError> {
        let Contents { part, log } = self.contents(partition)?;
        let name = |reason| failed(format!("partition {} of the engine: {reason}", partition.0));
        exported(part, &log).map_err(name)
    }

    /// Changes notes that are as they were seen, in this order.
    pub fn change_notes(&self, changes: &[NoteChange]) -> Result<(), ChangeError> {
        let decide = |view: &View| {
            let put = |(name, seen, value): &NoteChange| {
                let found = view.notes.get(name);
                if found != seen.as_ref() && found != value.as_ref() {
                    return Err(Refused::Impossible(format!("another process has changed `{name}` meanwhile")));
                }
                Ok(PutNote { name: name.clone(), seen: seen.clone(), value: value.clone() })
            };
            changes.iter().map(put).collect()
        };
        self.change(decide).map(|_| ())
    }

    /// Makes whole batches below offset `upto` the content of a partition that no server has owned, in place of what an
    /// interrupted import left there. `marker`: the note `cluster` as the import has written it.
    pub fn restore(
        &self,
        partition: PartitionId,
        incarnation: Incarnation,
        upto: i64,
        part: &[u8],
        now_ms: i64,
        marker: &[u8],
    ) -> Result<(), ChangeError> {
        let (chunks, at_least) = snapshot(part, now_ms).map_err(failed)?;
        self.wait(async {
            let history = self.image().await?.meta.history;
            let ask = async |body| self.ask(&Request { history, body }).await;
            let Content::Contents(before) = ask(Body::Read(Read { partition })).await? else {
                return Err(ChangeError::Contended);
            };
            // After the read: the claim fails if another import writes the partition from here on.
            if self.image().await?.notes.get(CLUSTER).is_none_or(|note| note != marker) {
                return Err(failed("another import has begun meanwhile, or servers have: this one ends".to_owned()));
            }
            if upto == 0 && before.part.is_none() {
                return Ok(());
            }
            if !before.log.entries.is_empty() {
                return Err(failed(format!("partition {} has records of servers", partition.0)));
            }
            let (seen, silence) = (before.part, Silence::NotNeeded);
            let claim = Claim { partition, seen, silence, node: IMPORT, incarnation, at_least };
            let token = match ask(Body::Claim(claim.clone())).await? {
                Content::Claimed(Claimed::Owner(token)) => token,
                Content::Claimed(Claimed::Lost(Some((part, at)))) if part == claim.part() => claim.token(at),
                _ => return Err(ChangeError::Contended),
            };
            let old = before.log.head;
            // Above the chunks that are there, also those of an interrupted import, so that the sweep finds them (§7.2).
            let of_head = old.as_ref().map(|head| head.value.upto);
            let upto = before.log.chunks.keys().map(|key| key.upto).chain(of_head).fold(upto, Ord::max);
            let prev = old.as_ref().map_or(Prev::Nothing, |head| Prev::Head(head.revision));
            let (count, checksum) = (chunks.len() as u32, checksum(&chunks));
            let head = SnapshotHead { upto, epoch: token.epoch, chunks: count, checksum };
            for (index, bytes) in (0..).zip(chunks) {
                let chunk = PutChunk { partition, token, upto, index, bytes };
                held(&ask(Body::Chunk(chunk)).await?)?;
            }
            let put = PutHead { partition, token, replaces: old.map(|head| head.value), prev, head };
            if ask(Body::Head(put)).await? != Content::HeadPut(HeadPut::Written) {
                return Err(ChangeError::Contended);
            }
            held(&ask(Body::Sweep(Sweep { partition, token, keep: head })).await?)?;
            // An attempt without an answer may have released it.
            ask(Body::Release(Release { partition, token })).await.map(|_| ())
        })
    }

    /// Empties the partitions from this one on, which an interrupted import of a directory with more of them has filled.
    pub fn empty_from(
        &self,
        first: PartitionId,
        incarnation: Incarnation,
        now_ms: i64,
        marker: &[u8],
    ) -> Result<(), ChangeError> {
        let parts = self.view().map_err(ChangeError::Failed)?.parts;
        let empty = |partition| self.restore(partition, incarnation, 0, &[], now_ms, marker);
        parts.range(first..).try_for_each(|(partition, _)| empty(*partition))
    }
}

fn held(content: &Content) -> Result<(), ChangeError> {
    if *content == Content::Fence(Fence::Held) { Ok(()) } else { Err(ChangeError::Contended) }
}

#[cfg(test)]
mod tests {
    use rota_engine::HistoryId;
    use rota_log::BatchWriter;

    use super::*;
    use crate::{
        MemoryEngine, MemoryLink, Pending,
        operating::{Member, Operated},
    };

    const PARTITION: PartitionId = PartitionId(0);

    impl Operated for MemoryLink {
        fn kind(&self) -> &'static str {
            "memory"
        }

        fn members(&self) -> Pending<'_, Vec<Member>> {
            Box::pin(async { Vec::new() })
        }

        fn alarms(&self) -> Pending<'_, Result<Vec<(u64, &'static str)>, String>> {
            Box::pin(async { Ok(Vec::new()) })
        }

        fn mend<'a>(&'a self, _: &'a mut (dyn FnMut(&str) + Send)) -> Pending<'a, Result<(), String>> {
            Box::pin(async { Ok(()) })
        }
    }

    fn mark(operator: &Operator, seen: Option<&[u8]>, marker: &[u8]) {
        let change = (CLUSTER.to_owned(), seen.map(<[u8]>::to_vec), Some(marker.to_vec()));
        operator.change_notes(&[change]).expect("a marker");
    }

    #[test]
    fn an_import_that_begins_anew_leaves_nothing_of_the_one_before() {
        let engine = MemoryEngine::new(HistoryId(1));
        let attach = async { Ok::<_, String>(engine.link()) };
        let operator = Operator::connect(attach).expect("a runtime").expect("an engine");
        let mut batch = BatchWriter::default();
        batch.push(0, Some(b"key"), Some(b"value"));
        let batch = batch.finish();
        let chunks = || [0, 1, 2].map(|at| operator.contents(PartitionId(at)).expect("contents").log.chunks.len());
        let restore = |at: i32, upto: i64, part: &[u8], marker: &[u8]| {
            operator.restore(PartitionId(at), Incarnation(1), upto, part, 0, marker).expect("a partition");
        };
        mark(&operator, None, b"importing=first");
        (0..3).for_each(|at| restore(at, 9, &batch, b"importing=first"));
        assert_eq!(chunks(), [1, 1, 1]);
        mark(&operator, Some(b"importing=first"), b"importing=second");
        restore(0, 1, &batch, b"importing=second");
        operator.empty_from(PartitionId(1), Incarnation(1), 0, b"importing=second").expect("the others");
        assert_eq!(chunks(), [1, 0, 0]);
        let first = operator.contents(PARTITION).expect("contents").log;
        assert_eq!((first.end(), first.snapshot().map(|chunks| chunks.len())), (Ok(9), Ok(1)));
    }

    #[test]
    fn an_import_that_slept_while_another_one_took_its_place_writes_nothing_more() {
        let engine = MemoryEngine::new(HistoryId(1));
        let attach = async { Ok::<_, String>(engine.link()) };
        let operator = Operator::connect(attach).expect("a runtime").expect("an engine");
        // An empty partition that has had an owner.
        let restore = |import: u128, marker: &[u8]| operator.restore(PARTITION, Incarnation(import), 1, &[], 0, marker);
        mark(&operator, None, b"importing=first");
        restore(1, b"importing=first").expect("the first partition of the first import");
        mark(&operator, Some(b"importing=first"), b"importing=second");
        restore(2, b"importing=second").expect("the second import begins anew");
        let second = operator.contents(PARTITION).expect("contents");
        let late = restore(1, b"importing=first").expect_err("the first import goes on");
        assert!(late.to_string().contains("another import"), "{late}");
        mark(&operator, Some(b"importing=second"), b"id=cluster");
        assert!(restore(1, b"importing=first").is_err(), "the second import is whole");
        assert_eq!(operator.contents(PARTITION), Ok(second));
    }
}
