//! Drops expired messages on disk at intervals, in whole segments.

use std::{sync::Arc, time::Duration};

use super::table::TopicTable;
use crate::base::clock::Clock;

/// Runs every `interval` while the node lives. Another thread reads.
pub async fn run(table: Arc<TopicTable>, clock: Clock, interval: Duration) {
    loop {
        tokio::time::sleep(interval).await;
        let (table, now_ms) = (Arc::clone(&table), clock.now().wall_ms);
        if tokio::task::spawn_blocking(move || table.drop_expired(now_ms)).await.is_err() {
            return;
        }
    }
}

impl TopicTable {
    /// Drops segments whose messages are all older than the topic's retention.
    pub(super) fn drop_expired(&self, now_ms: i64) {
        let Some(disk) = self.disk.as_ref().filter(|disk| !disk.is_read_only()) else { return };
        let table = self.published();
        for ((id, _), on_disk) in disk.all() {
            let topic = table.name_by_id.get(&id).and_then(|name| table.topic(name));
            let kept_ms = topic.and_then(|topic| topic.configs.retention_ms.or(self.settings.retention_ms));
            let Some(kept_ms) = kept_ms else { continue };
            // The view notes damage, which health shows.
            let Ok(below) = on_disk.view.older_than(now_ms.saturating_sub_unsigned(kept_ms)) else { continue };
            if below > on_disk.view.first_offset() {
                disk.expire_below(&on_disk, below);
            }
        }
    }
}
