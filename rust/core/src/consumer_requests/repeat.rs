//! The heartbeat that is equal to the one before it, byte for byte, while nothing has changed: most heartbeats of a
//! consumer group. Its answer is equal to the one before it, too.

use crate::{
    consumer_group::group::ConsumerGroup,
    coordinator::{Coordinator, Phase},
    effects::Receipt,
    purgatory::OpId,
    request::Now,
};

impl Coordinator {
    /// Handles a heartbeat like the one that left `receipt`: from the same client, with equal fields. `true`: the member
    /// has a whole session again, and the answer equals the one before. `false`: nothing has happened, and the request
    /// is to be submitted.
    #[inline]
    pub fn repeat_heartbeat(&mut self, now: Now, receipt: &Receipt) -> bool {
        let now = self.observe(now);
        self.phase == Phase::Active
            && receipt.epoch == self.epoch
            && self.consumer_groups.holds(receipt.stamp)
            && now.mono_ms < receipt.until_mono_ms
            && self.purgatory.rearm(receipt.session, now.after_timeout(receipt.session_timeout_ms))
    }

    /// The receipt of a heartbeat that changed nothing; `None`: time alone may have the next one change something. Patterns
    /// are resolved again at some age, and a new target is computed when the assignment interval is over.
    pub(super) fn receipt(&self, group: &ConsumerGroup, session: OpId, session_timeout_ms: i32) -> Option<Receipt> {
        let is_timed = group.has_patterns() || group.epoch() != group.target_epoch();
        let stamp = self.consumer_groups.stamp(group).filter(|_| !is_timed)?;
        Some(Receipt { stamp, session, session_timeout_ms, epoch: self.epoch, until_mono_ms: group.metadata_until_ms })
    }
}
