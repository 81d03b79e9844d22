//! Snapshot: chunks first, one at a time, then the head, then the older chunks go.

use super::{
    Command, Node,
    state::{Phase, Purpose, Serving, Snapshot, Step},
};
use crate::{
    entry::{Chunk, SnapshotHead, checksum},
    ids::PartitionId,
    requests::{Body, Content, Fence, HeadPut, PutChunk, PutHead, Sweep},
    view::Part,
};

impl Node {
    /// Whether a snapshot of everything below `upto` may begin.
    pub fn may_snapshot(&self, partition: PartitionId, upto: i64) -> bool {
        let Some(Phase::Serving(serving)) = self.state.partitions.get(&partition) else { return false };
        let known = serving.head.map_or(0, |head| head.upto);
        serving.snapshot.is_none() && known < upto && upto <= serving.next_offset
    }

    pub(super) fn snapshot(
        &mut self,
        partition: PartitionId,
        upto: i64,
        chunks: Vec<Chunk>,
        commands: &mut Vec<Command>,
    ) {
        if !self.may_snapshot(partition, upto) {
            return;
        }
        let Some(Phase::Serving(serving)) = self.state.partitions.get_mut(&partition) else { return };
        let epoch = serving.token.epoch;
        let head = SnapshotHead { upto, epoch, chunks: chunks.len() as u32, checksum: checksum(&chunks) };
        serving.snapshot = Some(Snapshot { head, prev: serving.prev, chunks, next: 0 });
        self.go_on(partition, commands);
    }

    /// Sends the next chunk, or the head after the last one.
    fn go_on(&mut self, partition: PartitionId, commands: &mut Vec<Command>) {
        let Some(Phase::Serving(serving)) = self.state.partitions.get_mut(&partition) else { return };
        if let Some(body) = serving.next_write(partition) {
            self.send(Purpose::Of(partition, Step::Snapshot), body, commands);
        }
    }

    pub(super) fn snapshot_answered(
        &mut self,
        partition: PartitionId,
        body: &Body,
        content: &Content,
        commands: &mut Vec<Command>,
    ) {
        if let Content::Fence(Fence::Refused(part)) | Content::HeadPut(HeadPut::Refused(part)) = content {
            return self.lost_while_writing(partition, *part, commands);
        }
        let Some(Phase::Serving(serving)) = self.state.partitions.get_mut(&partition) else { return };
        match body {
            Body::Chunk(_) => self.go_on(partition, commands),
            Body::Head(PutHead { token, head, .. }) => {
                serving.head = Some(*head);
                let sweep = Sweep { partition, token: *token, keep: *head };
                self.send(Purpose::Of(partition, Step::Snapshot), Body::Sweep(sweep), commands);
            }
            Body::Sweep(Sweep { keep, .. }) => {
                serving.snapshot = None;
                commands.push(Command::SnapshotDone(partition, keep.upto));
            }
            _ => {}
        }
    }

    fn lost_while_writing(&mut self, partition: PartitionId, shown: Option<Part>, commands: &mut Vec<Command>) {
        let Some(token) = self.state.partitions.get(&partition).and_then(Phase::token) else { return };
        let mine = token.part();
        self.lost(partition, mine, shown, commands);
    }
}

impl Serving {
    fn next_write(&mut self, partition: PartitionId) -> Option<Body> {
        let Snapshot { head, prev, chunks, next } = self.snapshot.as_mut()?;
        let index = *next;
        *next += 1;
        let chunk = chunks.get(index as usize);
        let Some(bytes) = chunk else {
            let put = PutHead { partition, token: self.token, replaces: self.head, prev: *prev, head: *head };
            return Some(Body::Head(put));
        };
        let bytes = bytes.clone();
        Some(Body::Chunk(PutChunk { partition, token: self.token, upto: head.upto, index, bytes }))
    }
}
