//! What a scan of a group's members makes, once: which topics they subscribe to, and how many are late.

use std::{collections::BTreeSet, sync::Arc};

use super::{
    counts::Named,
    group::{ConsumerGroup, ConsumerMember},
};

impl ConsumerMember {
    /// Whether it is a member that does not own yet what the target of `target_epoch` gives it.
    pub(super) fn is_late(&self, target_epoch: i32) -> bool {
        self.subscription.is_some() && !self.is_reconciled(target_epoch)
    }
}

impl ConsumerGroup {
    fn named(&self) -> &Named {
        self.counts.named.get_or_init(|| self.count_named())
    }

    fn count_named(&self) -> Named {
        let mut named = Named::new();
        for name in self.members().flat_map(|(_, _, value)| &value.topic_names) {
            *named.entry(Arc::clone(name)).or_default() += 1;
        }
        named
    }

    /// How many members do not own yet what the target gives them.
    pub(super) fn late(&self) -> usize {
        *self.counts.late.get_or_init(|| self.count_late())
    }

    fn count_late(&self) -> usize {
        let target_epoch = self.target_epoch();
        self.members().filter(|(_, member, _)| member.is_late(target_epoch)).count()
    }

    /// Whether the counts are those of a scan.
    pub(crate) fn counts_are_right(&self) -> bool {
        self.counts.named.get().is_none_or(|named| *named == self.count_named())
            && self.counts.late.get().is_none_or(|late| *late == self.count_late())
    }

    /// The topics of the patterns that members have.
    fn topics_of_patterns(&self) -> impl Iterator<Item = &Arc<str>> {
        self.pattern_members.keys().flat_map(|pattern| self.resolved_topics(pattern))
    }

    /// Whether a member subscribes to one of these topics, by name or by pattern.
    pub fn subscribes_to_any(&self, is_one: &dyn Fn(&str) -> bool) -> bool {
        self.named().keys().chain(self.topics_of_patterns()).any(|name| is_one(name))
    }

    /// The names of the topics that members subscribe to, by name or by pattern.
    pub fn topic_names(&self) -> BTreeSet<Arc<str>> {
        self.named().keys().chain(self.topics_of_patterns()).cloned().collect()
    }

    /// Whether some member subscribes to the topic.
    pub fn subscribes_to(&self, topic: &str) -> bool {
        self.named().contains_key(topic) || self.topics_of_patterns().any(|name| **name == *topic)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::OnceLock;

    use super::*;
    use crate::{
        consumer_group::{counts::Counts, group::GroupState},
        records::{ConsumerRecord, CurrentValue, PatternValue, SubscriptionValue, TargetEpochValue},
    };

    fn member(id: &str, names: &[&str], pattern: &str) -> ConsumerRecord {
        let value = SubscriptionValue {
            instance_id: None,
            rack_id: None,
            client_id: "".into(),
            client_host: "".into(),
            topic_names: names.iter().map(|name| Arc::from(*name)).collect(),
            topic_regex: Some(pattern.into()),
            rebalance_timeout_ms: 0,
            server_assignor: None,
            classic: None,
        };
        ConsumerRecord::Member(id.into(), Some(Box::new(value)))
    }

    fn current(id: &str, epoch: i32) -> ConsumerRecord {
        let (assigned, pending_revocation) = (Vec::new(), Vec::new());
        let value = CurrentValue { epoch, previous_epoch: 0, state: 0, assigned, pending_revocation };
        ConsumerRecord::Current(id.into(), Some(Box::new(value)))
    }

    fn shown(group: &ConsumerGroup) -> (String, usize) {
        assert!(group.counts_are_right());
        let names: Vec<String> = group.topic_names().iter().map(ToString::to_string).collect();
        (names.join(" "), group.late())
    }

    #[test]
    fn counts_follow_the_records_and_their_undoing() {
        let resolved = PatternValue { topics: vec!["d".into()], version: 0, timestamp_ms: 0 };
        let steps = [
            (member("m1", &["a", "b"], ""), "a b", 1),
            (member("m2", &["b", "c"], "d.*"), "a b c", 2),
            (ConsumerRecord::Pattern("d.*".into(), Some(Box::new(resolved))), "a b c d", 2),
            (current("m1", 1), "a b c d", 1),
            (ConsumerRecord::TargetEpoch(Some(TargetEpochValue { epoch: 2, timestamp_ms: 0 })), "a b c d", 2),
            (current("m2", 2), "a b c d", 1),
            (member("m2", &["c"], ""), "a b c", 1),
            (ConsumerRecord::Current("m1".into(), None), "a b c", 1),
            (ConsumerRecord::Member("m1".into(), None), "c", 0),
        ];
        let mut group = ConsumerGroup::new("g".into());
        let (mut undo, mut before) = (Vec::new(), vec![shown(&group)]);
        for (record, names, late) in steps {
            undo.push(group.apply(&record));
            assert_eq!(shown(&group), (names.to_owned(), late), "{record:?}");
            before.push(shown(&group));
        }
        assert_eq!(group.state(), GroupState::Stable);
        for record in undo.iter().rev() {
            before.pop();
            group.apply(record);
            assert_eq!(Some(&shown(&group)), before.last(), "{record:?}");
        }
    }

    #[test]
    fn a_count_that_differs_from_a_scan_is_wrong() {
        let mut group = ConsumerGroup::new("g".into());
        group.apply(&member("m1", &["a"], ""));
        assert!(group.counts_are_right());
        group.counts = Counts { late: OnceLock::from(2), ..Counts::default() };
        assert!(!group.counts_are_right());
        group.counts = Counts { named: OnceLock::from(Named::new()), ..Counts::default() };
        assert!(!group.counts_are_right());
    }
}
