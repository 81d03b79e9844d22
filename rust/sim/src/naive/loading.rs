//! From records to state (§15.1).

use std::{collections::BTreeMap, sync::Arc};

use rota_core::{
    LogEntry, Now, Phase, Record, Sink, State,
    records::{GroupValue, MemberValue},
};

use super::{Group, Member, Naive, Text};

impl Naive {
    /// One committed entry; only before `loaded`.
    pub fn replay(&mut self, entry: &LogEntry) {
        match &entry.record {
            Record::Offset { group_id, topic, partition, value: Some(value) } => {
                let now = self.clock;
                let group =
                    self.groups.entry(Arc::clone(group_id)).or_insert_with(|| Group::new(now.mono_ms, now.wall_ms));
                group.is_durable = true;
                group.offsets.insert((Arc::clone(topic), *partition), value.clone());
            }
            Record::Offset { group_id, topic, partition, value: None } => {
                if let Some(group) = self.groups.get_mut(group_id) {
                    group.offsets.remove(&(Arc::clone(topic), *partition));
                }
            }
            Record::Group { group_id, value: Some(value) } => self.replay_group(group_id, value),
            Record::Group { group_id, value: None } => {
                let now = self.clock;
                if let Some(group) = self.groups.remove(group_id).filter(|group| !group.offsets.is_empty()) {
                    let left =
                        Group { offsets: group.offsets, is_durable: true, ..Group::new(now.mono_ms, now.wall_ms) };
                    self.groups.insert(Arc::clone(group_id), left);
                }
            }
            Record::Unknown { .. } => {}
        }
    }

    fn replay_group(&mut self, id: &Text, value: &GroupValue) {
        let offsets = self.groups.remove(id).map_or_else(BTreeMap::new, |group| group.offsets);
        let mut group = Group::new(self.clock.mono_ms, self.clock.wall_ms);
        group.is_durable = true;
        group.offsets = offsets;
        group.generation = value.generation;
        group.protocol_type = Some(Arc::clone(&value.protocol_type)).filter(|name| !name.is_empty());
        group.state_timestamp_ms = Some(value.state_timestamp_ms).filter(|timestamp_ms| *timestamp_ms != -1);
        if !value.members.is_empty() {
            group.state = State::Stable;
            group.protocol_name.clone_from(&value.protocol_name);
            group.leader.clone_from(&value.leader);
        }
        for member in &value.members {
            let place = self.next_place;
            self.next_place += 1;
            group.members.insert(place, loaded_member(member, value.protocol_name.as_ref()));
        }
        group.recompute_subscriptions();
        self.groups.insert(Arc::clone(id), group);
    }

    /// The end of the log: sessions start, and groups that are too large rebalance.
    pub fn loaded(&mut self, now: Now, sink: &mut dyn Sink) {
        self.observe(now);
        self.phase = Phase::Active;
        let ids: Vec<Text> = self.groups.keys().cloned().collect();
        for id in &ids {
            self.group_mut(id).since_ms = now.mono_ms;
            for place in self.groups[id].members.keys().copied().collect::<Vec<_>>() {
                self.arm_session(id, place);
            }
        }
        for id in &ids {
            if self.groups[id].members.len() > self.config.group_max_size as usize {
                self.begin_rebalance(id, sink);
            }
        }
        self.cleaner = Some(self.alarm(self.config.offsets_retention_check_interval_ms));
    }

    /// The log could not be read.
    pub fn load_failed(&mut self) {
        self.phase = Phase::Failed;
        self.groups.clear();
    }
}

fn loaded_member(value: &MemberValue, protocol: Option<&Text>) -> Member {
    let rebalance_timeout_ms =
        if value.rebalance_timeout_ms == -1 { value.session_timeout_ms } else { value.rebalance_timeout_ms };
    Member {
        id: Arc::clone(&value.member_id),
        instance: value.instance_id.clone(),
        client_id: Arc::clone(&value.client_id),
        client_host: Arc::clone(&value.client_host),
        session_timeout_ms: value.session_timeout_ms,
        rebalance_timeout_ms,
        protocols: protocol.map(|name| (Arc::clone(name), Arc::clone(&value.subscription))).into_iter().collect(),
        assignment: Arc::clone(&value.assignment),
        join: None,
        sync: None,
        owes_sync: false,
        is_new: false,
        session: None,
        newcomer: None,
    }
}
