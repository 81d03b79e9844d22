//! Append: one outstanding append for each partition. Records that come meanwhile go together with the next one.

use super::{
    Command, Lost, Node, Reason, Refusal,
    state::{Phase, Purpose, Record, Serving, Step},
};
use crate::{
    entry::Prev,
    ids::PartitionId,
    requests::{Append, Appended, Body, append::Verdict},
};

impl Node {
    pub(super) fn append(&mut self, partition: PartitionId, record: Record, commands: &mut Vec<Command>) {
        let refusal = match self.state.partitions.get_mut(&partition) {
            Some(Phase::Serving(serving)) => {
                serving.waiting.push(record);
                return self.flush(partition, commands);
            }
            Some(Phase::Loading(_)) => Refusal::Loading,
            Some(Phase::Claiming(_) | Phase::Releasing(_)) | None => Refusal::NotCoordinator,
        };
        commands.push(Command::Refused(record.ticket, refusal));
    }

    fn flush(&mut self, partition: PartitionId, commands: &mut Vec<Command>) {
        let Some(Phase::Serving(serving)) = self.state.partitions.get_mut(&partition) else { return };
        if let Some(append) = serving.next_append(partition) {
            self.send(Purpose::Of(partition, Step::Append), Body::Append(append), commands);
        }
    }

    pub(super) fn appended(&mut self, append: &Append, answer: &Appended, commands: &mut Vec<Command>) {
        let partition = append.partition;
        match append.verdict(answer) {
            Verdict::Applied(revision) => {
                let Some(Phase::Serving(serving)) = self.state.partitions.get_mut(&partition) else { return };
                let Some((_, tickets)) = serving.outstanding.take() else { return };
                serving.next_offset = append.base_offset + append.count;
                serving.prev = Prev::Entry(append.base_offset, revision);
                commands.push(Command::Applied { partition, base_offset: append.base_offset, tickets });
                self.flush(partition, commands);
            }
            Verdict::Fenced => self.unload(partition, Reason::Fenced, commands),
            Verdict::WentBack => self.went_back(Lost::End(partition), commands),
        }
    }
}

impl Serving {
    /// Everything that waits, as one append, if none is under way.
    fn next_append(&mut self, partition: PartitionId) -> Option<Append> {
        if self.outstanding.is_some() {
            return None;
        }
        let records = std::mem::take(&mut self.waiting);
        let append = Append {
            partition,
            token: self.token,
            prev: self.prev,
            base_offset: self.next_offset,
            nonce: records.first()?.nonce,
            count: records.iter().map(|record| record.count).sum(),
            bytes: records.iter().map(|record| &record.bytes[..]).collect::<Vec<_>>().concat(),
        };
        self.outstanding = Some((append.clone(), records.iter().map(|record| record.ticket).collect()));
        Some(append)
    }
}
