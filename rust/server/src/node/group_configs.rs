//! The settings that groups have of their own, on their way to the coordinators.

use std::sync::Arc;

use rota_core::consumer_group::config::GroupSettings;
use rota_journal::Event;

use super::Node;
use crate::log::group_configs::{GroupConfigs, GroupTable};

impl Node {
    /// Returns the settings of all groups.
    pub fn group_configs(&self) -> &GroupConfigs {
        &self.shared.group_configs
    }

    /// Passes changed settings to the coordinators of their groups.
    pub fn tell_group_configs(&mut self) {
        let version = self.shared.group_configs.version();
        if self.configs_version == version || !self.settings.consumer_groups().enabled {
            return;
        }
        self.configs_version = version;
        let after = self.shared.group_configs.table();
        let before = std::mem::replace(&mut self.known_configs, Arc::clone(&after));
        let changed = after.iter().filter(|(group_id, settings)| before.get(*group_id) != Some(*settings));
        let gone = before.keys().filter(|group_id| !after.contains_key(*group_id));
        let changed: GroupTable = changed
            .map(|(group_id, settings)| (Arc::clone(group_id), *settings))
            .chain(gone.map(|group_id| (Arc::clone(group_id), GroupSettings::default())))
            .collect();
        for (group_id, settings) in &changed {
            let event = Event::GroupConfigured { group_id, settings: *settings };
            self.on_partition(self.partition_of(group_id), &event);
        }
    }

    /// Passes the settings of its groups to a coordinator that has just loaded.
    pub(super) fn tell_group_configs_to(&mut self, partition: u32) {
        let known = Arc::clone(&self.known_configs);
        let partitions = self.partitions();
        let is_there = |group_id: &str| rota_core::partition_for(group_id, partitions) == partition;
        for (group_id, settings) in known.iter().filter(|(group_id, _)| is_there(group_id)) {
            self.on_partition(partition, &Event::GroupConfigured { group_id, settings: *settings });
        }
    }
}
