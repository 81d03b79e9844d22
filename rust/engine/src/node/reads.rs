//! Reads: every success that waits for no append, and every timer that fires.

use super::{Command, Node, Refusal, state::Phase};
use crate::ids::{PartitionId, Ticket};

impl Node {
    /// The bytes of a read were taken from a socket. The next step, whose time is read after this, answers it.
    pub fn take(&mut self, ticket: Ticket, partition: PartitionId) {
        self.state.taken.push((ticket, partition));
    }

    /// What is still served at this step's time is answered.
    pub(super) fn answer_taken(&mut self, commands: &mut Vec<Command>) {
        for (ticket, partition) in std::mem::take(&mut self.state.taken) {
            let answer = match self.state.partitions.get(&partition) {
                Some(Phase::Serving(_)) => Ok(()),
                Some(Phase::Loading(_)) => Err(Refusal::Loading),
                Some(Phase::Claiming(_) | Phase::Releasing(_)) | None => Err(Refusal::NotCoordinator),
            };
            commands.push(Command::Read(ticket, answer));
        }
    }
}
