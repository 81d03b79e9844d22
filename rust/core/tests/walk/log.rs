//! The log that the coordinator writes to, and what it is after a crash.

use std::collections::BTreeMap;

use rota_core::{AppendId, Coordinator, ErrorCode, LogEntry, Projection, Record, SelfCheck, State};

use super::{
    GROUPS, World,
    history::{Fault, Known},
};

/// How a world's log is.
#[derive(Clone, Copy)]
pub struct LogHabits {
    pub fails: bool,
    pub ends_out_of_order: bool,
    pub is_slow: bool,
}

impl World {
    /// The log works for a moment, and everything that should be in it is.
    pub(super) fn calm_down(&mut self) {
        let log_failed = std::mem::replace(&mut self.log_habits.fails, false);
        // What an earlier append failed to store goes before the next one, so there has to be one; what another in
        // flight speaks of waits for the one after that.
        for _ in 0..2 {
            self.end_all_appends();
            let writer = Known { group: "writer", member_id: String::new(), instance: None };
            self.commit_to(&writer, -1);
        }
        self.end_all_appends();
        let in_doubt = self.in_doubt.iter().map(|(append_id, records)| ((self.life, *append_id), records.clone()));
        self.log.extend(in_doubt);
        self.compare_replay();
        self.compare_compacted();
        self.log_habits.fails = log_failed;
    }

    /// The end of an append: of the oldest, but in some worlds of any.
    pub(super) fn end_append(&mut self) {
        if self.in_flight.is_empty() || self.log_habits.is_slow && self.dice.chance(75) {
            return;
        }
        let any = self.log_habits.ends_out_of_order && self.dice.chance(50);
        let at = if any { self.dice.below(self.in_flight.len()) } else { 0 };
        if at > 0 {
            self.history.see("an end out of order".to_owned());
        }
        let (append_id, records) = self.in_flight.remove(at);
        let errors = [ErrorCode::NotLeaderOrFollower, ErrorCode::NotEnoughReplicas, ErrorCode::MessageTooLarge];
        let succeeds = !self.log_habits.fails || self.dice.chance(70);
        let result = if succeeds { Ok(append_id.0) } else { Err(self.dice.pick(&errors)) };
        let deletes = records.iter().any(Record::is_tombstone);
        if succeeds {
            self.history.acknowledge(self.life, append_id, &records);
            let is_lost = self.fault == Some(Fault::LostRecord) && append_id.0.is_multiple_of(2) && !deletes;
            if !is_lost {
                self.log.insert((self.life, append_id), records);
            }
        } else if deletes && self.dice.chance(50) {
            self.history.see("a deletion that failed and is in the log".to_owned());
            self.in_doubt.insert(append_id, records);
        }
        let now = self.now;
        self.event(
            || format!("appended {append_id:?} {result:?}"),
            |coordinator, effects| coordinator.appended(append_id, result, now, effects),
        );
    }

    pub(super) fn end_all_appends(&mut self) {
        while !self.in_flight.is_empty() {
            self.end_append();
        }
    }

    pub(super) fn forget_topic(&mut self) {
        let now = self.now;
        self.event(
            || "topic deleted".to_owned(),
            |coordinator, effects| coordinator.topics_deleted(&["u"], now, effects),
        );
    }

    /// Writes the state down, and goes on from what was written.
    pub(super) fn restore(&mut self) {
        let bytes = self.coordinator.snapshot();
        let restored = Coordinator::restore(&bytes);
        if !self.is_checked && restored.is_err() {
            return;
        }
        self.coordinator = restored.expect("S23: its own snapshot is readable");
        assert_eq!(self.coordinator.snapshot(), bytes, "S23: the same state, the same bytes");
        self.history.see("restore".to_owned());
    }

    pub(super) fn fold(&self) -> Coordinator {
        self.fold_before((u32::MAX, AppendId(0)))
    }

    /// What a load would make of the log before a place in it.
    fn fold_before(&self, end: (u32, AppendId)) -> Coordinator {
        let mut replica = Coordinator::new(self.config.clone(), 0, 1);
        replica.check_itself(SelfCheck::Never);
        for (offset, record) in self.log.range(..end).flat_map(|(_, records)| records).enumerate() {
            let record = Record::decode(&record.key_bytes(), record.value_bytes().as_deref()).expect("own bytes");
            replica.replay(&LogEntry { offset: offset as u64, timestamp_ms: self.now.wall_ms, record });
        }
        replica
    }

    pub(super) fn load(&mut self) {
        let now = self.now;
        self.event(|| "loaded".to_owned(), |coordinator, effects| coordinator.loaded(now, effects));
    }

    /// Unloads, or crashes, and loads from the log. What was in flight may be in it, or not.
    pub(super) fn reload(&mut self) {
        let now = self.now;
        if self.dice.chance(50) {
            self.history.forget_memory();
            self.event(|| "unload".to_owned(), |coordinator, effects| coordinator.unload(now, effects));
            assert!(self.open.is_empty() || !self.is_checked || self.fault.is_some(), "S18: unload answers everybody");
            self.history.see("unload".to_owned());
        }
        for (append_id, records) in std::mem::take(&mut self.in_flight) {
            if self.dice.chance(50) {
                self.history.store(self.life, append_id, &records);
                self.log.insert((self.life, append_id), records);
            }
        }
        for (append_id, records) in std::mem::take(&mut self.in_doubt) {
            self.history.store(self.life, append_id, &records);
            self.log.insert((self.life, append_id), records);
        }
        self.open.clear();
        self.history.forget_memory();
        self.life += 1;
        self.coordinator = self.fold();
        self.load();
        self.history.see("reload".to_owned());
    }

    /// S25: what can be seen is what the log had when the oldest append in flight began, expired offsets and all. A
    /// deleted topic's offsets go before their tombstones are durable, so only the other topic is looked at.
    pub(super) fn compare_view(&mut self) {
        if !self.is_checked || self.fault == Some(Fault::LostRecord) {
            return;
        }
        let oldest = self.in_flight.iter().map(|(append_id, _)| *append_id).min();
        let replica = self.fold_before(oldest.map_or((u32::MAX, AppendId(0)), |oldest| (self.life, oldest)));
        for group in GROUPS {
            let seen = |coordinator: &Coordinator| {
                let offsets = coordinator.project(group).map_or(Vec::new(), |group| group.offsets);
                offsets.into_iter().filter(|(topic, ..)| **topic == *"t").collect::<Vec<_>>()
            };
            let mut live = seen(&self.coordinator);
            if self.fault == Some(Fault::StaleView) {
                live.pop();
            }
            assert_eq!(live, seen(&replica), "S25: offsets of {group}");
            if !live.is_empty() {
                self.history.see("compared a view".to_owned());
            }
        }
    }

    /// S29: a log that is compacted while a load has read some part of it is loaded as it would have
    /// been: records that a later one of their key stands for can be there or not.
    fn compare_compacted(&mut self) {
        let records: Vec<Record> = self.log.values().flatten().cloned().collect();
        let read = self.dice.below(records.len() + 1);
        let newest: BTreeMap<Vec<u8>, usize> =
            records.iter().enumerate().map(|(at, record)| (record.key_bytes(), at)).collect();
        let mut replica = Coordinator::new(self.config.clone(), 0, 1);
        replica.check_itself(SelfCheck::Never);
        for (at, record) in records.into_iter().enumerate() {
            if at < read || newest[&record.key_bytes()] == at {
                replica.replay(&LogEntry { offset: at as u64, timestamp_ms: self.now.wall_ms, record });
            }
        }
        let whole = self.fold();
        for group in GROUPS {
            // A group that only had offsets, and has none any more, is loaded or not: the log says nothing of it.
            let something = |coordinator: &Coordinator| {
                coordinator.project(group).filter(|group| group.generation > 0 || !group.offsets.is_empty())
            };
            assert_eq!(something(&replica), something(&whole), "S29: {group}, compacted behind {read} records");
        }
        self.history.see("loaded compacted".to_owned());
    }

    /// S22: with nothing in flight, the log says what the state says of groups that are Stable or Empty.
    pub(super) fn compare_replay(&mut self) {
        if !self.is_checked {
            return;
        }
        let replica = self.fold();
        for group in GROUPS {
            let Some(live) = self.coordinator.project(group) else { continue };
            let Some(durable) = replica.project(group) else { panic!("S22: {group} lives and is not in the log") };
            assert_eq!(live.offsets, durable.offsets, "S22: offsets of {group}");
            let settled = live.state == State::Stable || live.state == State::Empty && live.generation > 0;
            if settled {
                assert_eq!(last_record(&live), last_record(&durable), "S22: the last record of {group}");
                self.history.see(format!("compared {:?}", live.state));
            }
        }
    }
}

/// The part of a group that its record keeps.
fn last_record(group: &Projection) -> impl PartialEq + std::fmt::Debug {
    let members: Vec<_> = group
        .members
        .iter()
        .map(|member| (member.member_id.clone(), member.instance_id.clone(), member.assignment.clone()))
        .collect();
    (group.generation, group.protocol_name.clone(), group.leader.clone(), members)
}
