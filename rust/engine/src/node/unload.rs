//! Unload: everything that ends the serving of a partition.

use super::{Command, Lost, Node, Reason, Refusal, Stop, state::Phase};
use crate::ids::PartitionId;

impl Node {
    /// Past the session's end nothing succeeds, completions that arrive included.
    pub(super) fn expire(&mut self, now_ms: u64, commands: &mut Vec<Command>) {
        if self.is_valid(now_ms) {
            return;
        }
        let answers = |phase: &Phase| matches!(phase, Phase::Loading(_) | Phase::Serving(_));
        let ending = self.state.partitions.iter().filter(|(_, phase)| answers(phase));
        let ending: Vec<PartitionId> = ending.map(|(partition, _)| *partition).collect();
        for partition in ending {
            self.unload(partition, Reason::Expired, commands);
        }
    }

    /// Forgets a partition. Its calls may take effect all the same, as long as the engine has the same owner.
    pub(super) fn unload(&mut self, partition: PartitionId, reason: Reason, commands: &mut Vec<Command>) {
        self.abandon(partition);
        let Some(phase) = self.state.partitions.remove(&partition) else { return };
        if let Phase::Serving(serving) = phase {
            let sent = serving.outstanding.into_iter().flat_map(|(_, tickets)| tickets);
            commands.extend(sent.map(|ticket| Command::Refused(ticket, Refusal::Uncertain)));
            let unsent = serving.waiting.into_iter().map(|record| record.ticket);
            commands.extend(unsent.map(|ticket| Command::Refused(ticket, Refusal::NotCoordinator)));
            commands.push(Command::Unload(partition, reason));
        }
    }

    /// The engine does not have any more what it had confirmed.
    pub(super) fn went_back(&mut self, lost: Lost, commands: &mut Vec<Command>) {
        if self.state.stopped.is_none() {
            commands.push(Command::Lost(lost));
        }
        self.stop(Stop::WentBack, commands);
    }

    pub(super) fn stop(&mut self, stop: Stop, commands: &mut Vec<Command>) {
        if self.state.stopped.is_some() {
            return;
        }
        let partitions: Vec<PartitionId> = self.state.partitions.keys().copied().collect();
        for partition in partitions {
            self.unload(partition, Reason::Stopping, commands);
        }
        self.state.calls.clear();
        self.state.stopped = Some(stop);
        commands.push(Command::Stopped(stop));
    }
}
