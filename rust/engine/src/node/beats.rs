//! Beats: how long a node may answer reads, and what it still owns.

use super::{Command, Lost, Node, Stop, state::Purpose};
use crate::{
    ids::Revision,
    requests::{Beaten, Body, PutBeat},
    view::Beat,
};

impl Node {
    pub(super) fn beat_if_due(&mut self, now_ms: u64, commands: &mut Vec<Command>) {
        if now_ms < self.state.beat_due_ms || self.is_calling(|purpose| matches!(purpose, Purpose::Beat(_))) {
            return;
        }
        self.state.counter += 1;
        self.state.beat_due_ms = now_ms + self.config.beat_interval_ms;
        let beat = Beat { incarnation: self.config.incarnation, counter: self.state.counter };
        let put = PutBeat { node: self.config.node, beat, shown: self.state.shown.map_or(0, |(_, counter)| counter) };
        self.send(Purpose::Beat(now_ms), Body::Beat(put), commands);
    }

    pub(super) fn beaten(
        &mut self,
        now_ms: u64,
        sent_ms: u64,
        counter: u64,
        revision: Revision,
        beaten: Beaten,
        commands: &mut Vec<Command>,
    ) {
        let parts = match beaten {
            Beaten::Alive(parts) => parts,
            Beaten::Late => return,
            Beaten::Lost => {
                let shown = self.state.shown.map_or(0, |(_, counter)| counter);
                return self.went_back(Lost::Beat(shown), commands);
            }
            Beaten::Replaced => return self.stop(Stop::Replaced, commands),
        };
        self.show_beat(revision, counter);
        // A beat that was carried out just after a claim says so: what was lost is unloaded before time is gained.
        self.observe(revision, &parts, commands);
        // After an outage of the engine the silence was everybody's: owners come back before anybody claims.
        if now_ms.saturating_sub(self.state.answered_ms) > self.config.ttl_ms / 2 {
            for silent in self.state.silent.values_mut().filter(|silent| !silent.is_anew) {
                (silent.since_ms, silent.is_anew) = (now_ms, true);
            }
        }
        self.state.answered_ms = now_ms;
        let until_ms = self.lasts_until(sent_ms);
        self.state.valid_until_ms = self.state.valid_until_ms.max(Some(until_ms));
    }

    /// The engine has this beat of the process at this revision.
    pub(super) fn show_beat(&mut self, revision: Revision, counter: u64) {
        if self.state.shown.is_none_or(|(_, shown)| shown < counter) {
            self.state.shown = Some((revision, counter));
        }
    }

    /// Counted from when the beat was sent: a claimant that counts its silence saw it later.
    fn lasts_until(&self, sent_ms: u64) -> u64 {
        sent_ms + self.config.ttl_ms - self.config.margin_ms
    }

    /// Whether reads may be answered at this time.
    pub(super) fn is_valid(&self, now_ms: u64) -> bool {
        self.state.valid_until_ms.is_some_and(|until_ms| now_ms < until_ms)
    }
}
