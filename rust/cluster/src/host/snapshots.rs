//! Snapshots: the compaction of a data directory, over what the engine has of a partition.

use std::{
    sync::Arc,
    time::{SystemTime, UNIX_EPOCH},
};

use rota_engine::{
    Body, Chunk, Epoch, Event, Log, Outcome, PartitionId, Request,
    node::Phase,
    requests::{Content, Read},
};
use rota_log::store::compact_batches;

use super::Running;
use crate::{engine::Engine, messages::Report};

/// A tail of more bytes, and of more than the last snapshot has, is compacted.
const TAIL_BYTES_MAX: usize = 1 << 20;
/// So is a tail of more entries.
const TAIL_ENTRIES_MAX: usize = 4_096;
/// Bytes of a chunk, unless one batch alone has more.
const CHUNK_BYTES: usize = 256 << 10;
/// Kafka's default of `delete.retention.ms`.
pub(crate) const DELETE_RETENTION_MS: i64 = 86_400_000;

impl Running<'_> {
    /// Begins to compact the partition with the longest tail, if one is long enough. One at a time.
    pub(super) fn compact_one(&mut self) {
        // A snapshot whose partition was lost does not end.
        let writes = |phase: &Phase| matches!(phase, Phase::Serving(serving) if serving.snapshot.is_some());
        if self.is_reading_tail || self.node.inspect().partitions.values().any(writes) {
            return;
        }
        let is_long = |bytes: usize, entries: usize, snapshot_bytes: usize| {
            bytes > TAIL_BYTES_MAX.max(snapshot_bytes) || entries > TAIL_ENTRIES_MAX
        };
        let long =
            self.feeds.iter().filter(|(_, feed)| is_long(feed.tail_bytes, feed.tail_entries, feed.snapshot_bytes));
        let Some((partition, feed)) = long.max_by_key(|(_, feed)| feed.tail_bytes) else { return };
        let (partition, epoch) = (*partition, feed.epoch);
        self.is_reading_tail = true;
        let request = Request { history: self.node.inspect().history, body: Body::Read(Read { partition }) };
        let (engine, reports) = (Arc::clone(&self.engine), self.reports.clone());
        tokio::task::spawn_local(async move {
            let compacted = compacted(&*engine, &request).await;
            // The node may have ended.
            let _gone = reports.send(Report::Compacted(partition, epoch, compacted));
        });
    }

    pub(super) fn compacted(
        &mut self,
        partition: PartitionId,
        epoch: Epoch,
        compacted: Result<(i64, Vec<Chunk>), String>,
    ) {
        self.is_reading_tail = false;
        let Some(feed) = self.feeds.get_mut(&partition).filter(|feed| feed.epoch == epoch) else { return };
        let (upto, chunks) = match compacted {
            Ok(compacted) => compacted,
            Err(reason) => {
                eprintln!("rota: {} is not compacted: {reason}", self.cluster.partitions.name(partition));
                (feed.tail_bytes, feed.tail_entries) = (0, 0);
                return;
            }
        };
        // What was appended while the content was read counts with the next tail.
        (feed.tail_bytes, feed.tail_entries) = (0, 0);
        feed.snapshot_bytes = chunks.iter().map(Vec::len).sum();
        if self.node.may_snapshot(partition, upto) {
            self.step(Event::Snapshot { partition, upto, chunks });
        }
    }
}

async fn compacted(engine: &dyn Engine, request: &Request) -> Result<(i64, Vec<Chunk>), String> {
    let log = match engine.call(request).await {
        Outcome::Answered(answer) => match answer.content {
            Content::Contents(contents) => contents.log,
            other => return Err(format!("the engine answered {other:?}")),
        },
        Outcome::Unknown | Outcome::SpaceExhausted => return Err("the engine does not answer".to_owned()),
    };
    let now_ms = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as i64);
    let work = tokio::task::spawn_blocking(move || compact(&log, now_ms));
    work.await.map_err(|error| error.to_string())?
}

/// Everything of a log as one snapshot: the offset below which it is complete, and its chunks.
fn compact(log: &Log, now_ms: i64) -> Result<(i64, Vec<Chunk>), String> {
    let snapshot = log.snapshot().map_err(|damage| format!("{damage:?}"))?;
    let end = log.end().map_err(|damage| format!("{damage:?}"))?;
    let upto = log.head.as_ref().map_or(0, |head| head.value.upto);
    let tail = log.entries.iter().filter(|(base_offset, entry)| *base_offset + entry.value.count > upto);
    let mut parts: Vec<&[u8]> = snapshot.into_iter().map(Vec::as_slice).collect();
    parts.extend(tail.map(|(_, entry)| entry.value.bytes.as_slice()));
    let (upto, kept) = compact_batches(&parts, now_ms, DELETE_RETENTION_MS).map_err(|error| error.to_string())?;
    Ok((upto.min(end), chunks(kept)))
}

/// Batches as chunks of a snapshot.
pub(crate) fn chunks(batches: Vec<Chunk>) -> Vec<Chunk> {
    let mut chunks: Vec<Chunk> = Vec::new();
    for batch in batches {
        match chunks.last_mut() {
            Some(chunk) if chunk.len() + batch.len() <= CHUNK_BYTES => chunk.extend(batch),
            _ => chunks.push(batch),
        }
    }
    chunks
}
