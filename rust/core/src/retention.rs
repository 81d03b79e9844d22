//! The cleaner: offsets and groups that have been kept long enough (docs/protocol.md §13). One run looks at every group,
//! a bounded number of offsets per step, so that no request waits long.

use std::{collections::BTreeSet, ops::Bound, sync::Arc};

use crate::{
    appends::{UNATTENDED_BYTES_MAX, record_bytes},
    consumer_group::group::ConsumerGroup,
    coordinator::{Cleaner, Coordinator, Place},
    deletes::tombstones,
    effects::Step,
    group::{Group, GroupHandle},
    in_flight::Purpose,
    operations::Operation,
    records::Record,
    request::Now,
    states::State,
    stored_offsets::StoredOffset,
};

/// How many groups and offsets one step looks at.
pub const STEP_ENTRIES: usize = 1_000;

const MS_PER_MINUTE: i64 = 60_000;

/// When the offsets of a group expire (§13.1).
struct Rule<'a> {
    /// Counted from here; none: from each commit.
    since_ms: Option<i64>,
    /// Topics that are spared.
    subscribed: Option<&'a BTreeSet<Arc<str>>>,
}

/// What one step has found.
struct Findings {
    /// How many entries it may still look at.
    left: usize,
    bytes: usize,
    records: Vec<Record>,
    removed: Vec<GroupHandle>,
}

/// What appends in flight speak of: it is left alone.
struct Busy<'a> {
    offsets: BTreeSet<(&'a str, &'a str, i32)>,
    groups: BTreeSet<&'a str>,
}

impl Group {
    /// None: nothing of it expires as it is now.
    fn retention(&self) -> Option<Rule<'_>> {
        match (&self.protocol_type, self.state) {
            _ if self.deleting.is_some() => None,
            (None, _) => Some(Rule { since_ms: None, subscribed: None }),
            (Some(_), State::Empty) => Some(Rule { since_ms: self.state_timestamp_ms, subscribed: None }),
            (Some(_), State::Stable) if self.is_consumer() => {
                self.subscribed_topics.as_ref().map(|topics| Rule { since_ms: None, subscribed: Some(topics) })
            }
            _ => None,
        }
    }
}

impl Rule<'_> {
    /// A record with an expire timestamp goes by that, any other by its age. INVARIANT: S25, nothing else expires.
    fn has_ended(&self, now: Now, retention_ms: i64, topic: &Arc<str>, value: StoredOffset<'_>) -> bool {
        if self.subscribed.is_some_and(|topics| topics.contains(topic)) {
            return false;
        }
        match value.expire_timestamp_ms() {
            Some(expire_ms) => now.wall_ms >= expire_ms,
            None => now.wall_ms.saturating_sub(self.since_ms.unwrap_or(value.commit_timestamp_ms)) >= retention_ms,
        }
    }
}

impl Busy<'_> {
    fn of(coordinator: &Coordinator) -> Busy<'_> {
        let mut busy = Busy { offsets: BTreeSet::new(), groups: BTreeSet::new() };
        for append in coordinator.appends.values() {
            for record in &append.records {
                match record {
                    Record::Offset { group_id, topic, partition, .. } => {
                        busy.offsets.insert((group_id, topic, *partition));
                        busy.groups.insert(group_id);
                    }
                    Record::Group { group_id, .. } => {
                        busy.groups.insert(group_id);
                    }
                    Record::Consumer { .. } | Record::Unknown { .. } => {}
                }
            }
        }
        busy
    }
}

impl Findings {
    fn add(&mut self, records: Vec<Record>) {
        self.bytes += records.iter().map(record_bytes).sum::<usize>();
        self.records.extend(records);
        if self.bytes >= UNATTENDED_BYTES_MAX {
            self.left = 0;
        }
    }
}

impl Coordinator {
    /// The next run begins one interval from now.
    pub(crate) fn schedule_cleaner(&mut self, now: Now) {
        let deadline = now.after(self.config.offsets_retention_check_interval_ms);
        self.cleaner = Cleaner { deadline: Some(self.purgatory.watch(deadline, &[], Operation::Cleaner)), at: None };
    }

    /// The groups with an offset, or with the record of a classic group, in an append in flight.
    pub(crate) fn groups_in_flight(&self) -> BTreeSet<&str> {
        Busy::of(self).groups
    }

    /// One step of a run. What is found goes when its tombstones are durable; if they fail, the next run finds it again.
    pub(crate) fn clean(&mut self, step: &mut Step<'_>) {
        let mut at = self.cleaner.at.take();
        let mut found = Findings { left: STEP_ENTRIES, bytes: 0, records: Vec::new(), removed: Vec::new() };
        let busy = Busy::of(self);
        let first = at.as_ref().map_or(Bound::Unbounded, |place| Bound::Included(&place.group_id));
        let mut rest = None;
        for (group_id, handle) in self.group_ids.range::<Arc<str>, _>((first, Bound::Unbounded)) {
            let begun = at.as_ref().filter(|place| place.group_id == *group_id).and_then(|place| place.after.as_ref());
            let stopped = self.look_for_expired(step.now, *handle, begun, &busy, &mut found);
            if let Err(after) = stopped {
                rest = Some(Place { group_id: Arc::clone(group_id), after });
                break;
            }
        }
        drop(busy);
        at = rest;
        if at.is_none() {
            self.end_idle_consumer_groups(step);
        }
        if !found.records.is_empty() {
            let removed = found.removed.clone();
            let append_id = self.append(step, "".into(), Purpose::Retention(removed), found.records);
            for handle in found.removed {
                self.groups[handle].deleting = Some(append_id);
            }
        }
        if at.is_none() {
            return self.schedule_cleaner(step.now);
        }
        let deadline = self.purgatory.watch(step.now.mono_ms, &[], Operation::Cleaner);
        self.cleaner = Cleaner { deadline: Some(deadline), at };
    }

    /// Looks at one group, from behind a place on. An error says where the step ran out.
    fn look_for_expired(
        &self,
        now: Now,
        handle: GroupHandle,
        begun: Option<&(Arc<str>, i32)>,
        busy: &Busy<'_>,
        found: &mut Findings,
    ) -> Result<(), Option<(Arc<str>, i32)>> {
        let group = &self.groups[handle];
        let entries = 1 + group.offsets.count();
        // A group that fits into a step is not split, so that it can go as a whole.
        if found.left == 0 || begun.is_none() && entries > found.left && entries <= STEP_ENTRIES {
            return Err(begun.cloned());
        }
        found.left -= 1;
        let is_pending = self.pending_offsets.has_group(&group.id);
        let consumer_group = self.find_consumer_group(&group.id);
        let subscribed = consumer_group.map(ConsumerGroup::topic_names);
        let rule = match &subscribed {
            Some(topics) => Some(Rule { since_ms: None, subscribed: Some(topics) }),
            None => group.retention(),
        };
        let Some(rule) = rule else { return Ok(()) };
        let retention_ms = i64::from(self.config.offsets_retention_minutes) * MS_PER_MINUTE;
        let mut expired = Vec::new();
        let mut expired_bytes = 0;
        let mut last = begun.cloned();
        for (topic, partition, value) in group.offsets.behind(begun) {
            // Where names are long, fewer entries than a step may look at make a batch that no log takes.
            if found.left == 0 || expired_bytes >= UNATTENDED_BYTES_MAX {
                found.add(expired);
                return Err(last);
            }
            found.left -= 1;
            last = Some((Arc::clone(topic), partition));
            // An offset of an open transaction keeps the one before it, as in Kafka.
            let is_busy = busy.offsets.contains(&(&*group.id, &**topic, partition))
                || is_pending && self.pending_offsets.is_unstable(&group.id, topic, partition);
            if !is_busy && rule.has_ended(now, retention_ms, topic, value) {
                let ended = tombstones(&group.id, [(Arc::clone(topic), partition)]);
                expired_bytes += ended.iter().map(record_bytes).sum::<usize>();
                expired.extend(ended);
            }
        }
        // One that was split waits for the next run: the result of its first part is unknown until then.
        let nothing_left = begun.is_none() && expired.len() + 1 == entries;
        let may_go = group.state == State::Empty && !self.consumer_groups.contains_key(&group.id);
        if may_go && nothing_left && !is_pending && !busy.groups.contains(&*group.id) {
            let is_gone = |(topic, partition): &(Arc<str>, i32)| group.offsets.get(topic, *partition).is_none();
            expired.extend(tombstones(&group.id, self.unsaved_offsets(&group.id).filter(is_gone)));
            expired.push(Record::Group { group_id: Arc::clone(&group.id), value: None });
            found.removed.push(handle);
        }
        found.add(expired);
        Ok(())
    }
}
