//! Release: a node gives a partition up. It answers nothing from the moment on at which it decides to.

use super::{
    Command, Node, Reason,
    state::{Phase, Purpose, Step},
};
use crate::{
    ids::PartitionId,
    requests::{Body, Fence, Release},
    view::{Part, Token},
};

impl Node {
    pub(super) fn release(&mut self, partition: PartitionId, commands: &mut Vec<Command>) {
        let token = match self.state.partitions.get(&partition) {
            Some(Phase::Loading(token)) => *token,
            Some(Phase::Serving(serving)) => serving.token,
            Some(Phase::Claiming(_) | Phase::Releasing(_)) => return,
            None => {
                let Some(token) = self.stray(partition) else { return };
                token
            }
        };
        self.unload(partition, Reason::Leaving, commands);
        self.state.partitions.insert(partition, Phase::Releasing(token));
        let release = Release { partition, token };
        self.send(Purpose::Of(partition, Step::Release), Body::Release(release), commands);
    }

    /// What the view shows as this process's although it serves nothing: the session ended meanwhile.
    fn stray(&self, partition: PartitionId) -> Option<Token> {
        let Part { epoch, node, incarnation, held } = *self.state.view.parts.get(&partition)?;
        let is_mine = held && node == self.config.node && incarnation == self.config.incarnation;
        is_mine.then_some(Token { epoch, node, incarnation, claimed: self.state.view.revision })
    }

    pub(super) fn is_releasing(&self, partition: PartitionId) -> bool {
        matches!(self.state.partitions.get(&partition), Some(Phase::Releasing(_)))
    }

    pub(super) fn released(&mut self, partition: PartitionId, token: Token, fence: Fence, commands: &mut Vec<Command>) {
        match fence {
            Fence::Refused(part) if part != Some(Part { held: false, ..token.part() }) => {
                self.lost(partition, token.part(), part, commands);
            }
            // Done, by this attempt or by an earlier one.
            Fence::Held | Fence::Refused(_) => {
                self.state.partitions.remove(&partition);
                commands.push(Command::Released(partition));
            }
        }
    }
}
