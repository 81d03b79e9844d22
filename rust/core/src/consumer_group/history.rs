//! What a consumer group has been doing: its durable state, since when, and its recent rebalances.

use std::collections::VecDeque;

use super::{
    group::{ConsumerGroup, GroupHistory, GroupState},
    image::ClassicImage,
};
use crate::{
    effects::{Moment, Step},
    history::{Cause, Rebalance, Trigger, remember, settle_last},
};

impl ConsumerGroup {
    /// The records so far are durable, those that `trigger` caused among them. Keeps the last `kept` rebalances.
    pub(crate) fn note_progress(&mut self, step: &mut Step<'_>, trigger: Option<&Trigger>, kept: u32) {
        let (state, epoch, target_epoch) = (self.state(), self.epoch(), self.target_epoch());
        let history = &mut self.history;
        if let Some(trigger) = trigger {
            let rebalance = Rebalance::beginning(step.now, trigger, history.epoch);
            if epoch != history.epoch {
                let rebalance = Rebalance { to_generation: Some(epoch), ..rebalance };
                step.sink.rebalance(&self.id, Moment::EpochBumped, &rebalance);
                remember(&mut history.rebalances, kept, rebalance);
            } else if trigger.cause == Cause::Upgraded {
                // A static member took its place in the new protocol, and nothing else has changed.
                settle_last(&mut history.rebalances, step.now.mono_ms, epoch);
                remember(&mut history.rebalances, kept, rebalance.settled(epoch));
            }
        }
        (history.epoch, history.target_epoch) = (epoch, target_epoch);
        if let Some(open) = history.rebalances.back_mut().filter(|last| last.settled_ms.is_none()) {
            if open.joined_ms.is_none() && target_epoch == epoch {
                open.joined_ms = Some(step.now.mono_ms);
            }
            if matches!(state, GroupState::Empty | GroupState::Stable) {
                open.settled_ms = Some(step.now.mono_ms);
                step.sink.rebalance(&self.id, Moment::Reconciled, open);
            }
        }
        if state != history.state {
            (history.state, history.since_ms) = (state, step.now.mono_ms);
        }
    }

    /// The history begins: the group is new or loaded.
    pub(crate) fn begin_history(&mut self, now_ms: u64) {
        let (state, epoch, target_epoch) = (self.state(), self.epoch(), self.target_epoch());
        self.history = GroupHistory { state, epoch, target_epoch, since_ms: now_ms, rebalances: VecDeque::new() };
    }

    /// The history of a classic group goes on in this group, which takes its place.
    pub(crate) fn continue_history(&mut self, classic: &ClassicImage) {
        let state = if classic.is_stable { GroupState::Stable } else { GroupState::Reconciling };
        let ClassicImage { generation: epoch, since_ms, .. } = *classic;
        let rebalances = classic.rebalances.clone();
        self.history = GroupHistory { state, epoch, target_epoch: epoch, since_ms, rebalances };
    }
}
