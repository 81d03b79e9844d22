//! What holds in every world (docs/transactions.md §9).

use std::collections::BTreeSet;

use rota_txn::{CONSUMER_OFFSETS, Marker, State};

use crate::{
    actions::Action,
    participant::Tag,
    world::{Seen, World, participant},
};

/// More steps than any transaction needs to end.
const STEPS_MAX: usize = 200;

impl World {
    /// After every step.
    pub fn check(&self) -> Result<(), String> {
        if let Some(violation) = self.coordinator.violations().first() {
            return Err(format!("S: {violation}"));
        }
        Ok(())
    }

    /// T3 and T4: a marker shows or hides data as its own transaction was decided.
    pub fn check_ended(&self, at: usize, marker: &Marker, data: &BTreeSet<(Tag, i16)>) -> Result<(), String> {
        let promise = if participant(at).topic == CONSUMER_OFFSETS { "T4" } else { "T3" };
        for (tag, _) in data {
            if self.outcomes.get(tag) != Some(&marker.is_commit) {
                let outcome = self.outcomes.get(tag);
                return Err(format!("{promise}: {marker:?} ends data of {tag:?}, whose outcome is {outcome:?}"));
            }
        }
        Ok(())
    }

    /// When a Complete state is known, no participant has data of the transaction without a marker.
    pub fn check_complete(&self) -> Result<(), String> {
        let open = |tag| self.parts.iter().any(|part| part.open.iter().any(|(of, _)| *of == tag));
        match self.owner.filter(|owner| open(*owner)) {
            Some(owner) => Err(format!("T5: {owner:?} is complete, and a participant still has it open")),
            None => Ok(()),
        }
    }

    /// T5 and T6: if nothing fails any more, a decided transaction completes, and nothing stays open without a
    /// transaction. What a client knows to be appended is visible if it is committed.
    pub fn check_end(&self) -> Result<(), String> {
        let mut world = self.clone();
        world.left.timeouts = u8::MAX;
        let mut seen = Seen::new();
        for _ in 0..STEPS_MAX {
            let Some(action) = world.next_of_the_system() else {
                return world.check_quiet();
            };
            world.act(action, &mut seen)?;
        }
        Err(format!("T5: no end after {STEPS_MAX} steps, in {:?}", world.state()))
    }

    /// Whether nothing happens next by itself, or only what the bounds leave out: the end of a transaction's time. From
    /// any other world, the next step leads to one that the search visits.
    pub fn may_stay(&self) -> bool {
        matches!(self.next_of_the_system(), None | Some(Action::Advance))
    }

    /// The next step that needs no client and no fault.
    fn next_of_the_system(&self) -> Option<Action> {
        if self.append.is_some() {
            return Some(Action::Stored);
        }
        if let Some(flight) = self.markers.iter().find(|flight| flight.id.is_some()) {
            return Some(Action::Mark(flight.clone()));
        }
        let is_due = self.coordinator.next_deadline().is_some_and(|deadline_ms| deadline_ms < 1_000_000);
        is_due.then_some(Action::Advance)
    }

    fn check_quiet(&self) -> Result<(), String> {
        if self.state().is_some_and(|state| state.is_prepare() || state == State::Ongoing) {
            return Err(format!("T5: it stays in {:?}", self.state()));
        }
        for (at, part) in self.parts.iter().enumerate() {
            if let Some((tag, _)) = part.open.first() {
                return Err(format!("T6: data of {tag:?} stays open in participant {at}"));
            }
        }
        for (at, tag) in &self.acknowledged {
            let part = &self.parts[*at];
            let is_visible = part.visible.contains(tag);
            if is_visible != (self.outcomes.get(tag) == Some(&true)) {
                return Err(format!("T3: data of {tag:?} in participant {at} is visible: {is_visible}"));
            }
        }
        Ok(())
    }
}
