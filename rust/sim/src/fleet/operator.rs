//! An operator who describes the groups every two seconds.

use rota_core::{Request, Ticket, request::DescribeGroup};
use rota_journal::Event;
use rota_member::Request as Asked;

use super::{Fleet, Happening, heal::slowly, log::Described, shape::APPEND_MS};

/// Interval at the usual pace, in milliseconds.
const PERIOD_MS: u64 = 2_000;
/// Time within which immediate effects happen, in milliseconds.
const SOON_MS: u64 = 10;
const VERSION: i16 = 5;

/// The known state of a group.
#[derive(Clone, Copy, Default)]
pub struct Watch {
    /// Whether the last description showed one member in a Stable group, with no join since. If this member leaves, a
    /// rebalance begins that waits for no member, whichever returns (docs/protocol.md §5.1, TRAP-06).
    pub had_one: bool,
    /// Since when the group waits without members, in milliseconds.
    without_members_ms: Option<u64>,
}

impl Fleet {
    /// Describes each group and schedules the next time: soon if a group waits without members.
    pub(super) fn inspect(&mut self) {
        for group in 0..self.shape.groups.len() {
            self.look("L1");
            self.inspect_group(group);
        }
        let is_suspicious = self.watches.iter().any(|watch| watch.had_one && watch.without_members_ms.is_some());
        let wait_ms = if is_suspicious { SOON_MS } else { PERIOD_MS * u64::from(self.shape.pace) };
        self.queue.push(self.now_ms + wait_ms, Happening::Inspect);
    }

    fn inspect_group(&mut self, group: usize) {
        let described = self.describe(group);
        if !described.as_ref().is_some_and(|found| found.state == "PreparingRebalance" && found.members == 0) {
            let is_alone = described.is_some_and(|found| found.state == "Stable" && found.members == 1);
            let had_one = is_alone && !self.is_joined(group);
            self.watches[group] = Watch { had_one, without_members_ms: None };
            return;
        }
        let Watch { had_one, without_members_ms } = &mut self.watches[group];
        let waited_ms = self.now_ms - *without_members_ms.get_or_insert(self.now_ms);
        // Members that left later are waited for no longer than a join phase and the group's first record take.
        let most_ms = slowly(u64::from(self.shape.timeouts.rebalance_ms) + u64::from(APPEND_MS));
        if waited_ms > if *had_one { 0 } else { most_ms } {
            self.violated("L1", format!("{} has no members, and waits for them", self.shape.groups[group].id));
        }
    }

    fn describe(&mut self, group: usize) -> Option<Described> {
        let id = self.shape.groups[group].id.clone();
        let partition = self.shape.partition_of(&id);
        if self.engine.as_ref().is_some_and(|engine| engine.paused_until(self.owners[partition], self.now_ms).is_some())
        {
            return None;
        }
        self.expire(self.owners[partition]);
        self.tickets += 1;
        let request = Request::DescribeGroup(DescribeGroup { version: VERSION, group_id: Some(&id) });
        let asked = Event::Submitted { ticket: Ticket(self.tickets), entropy: 0, request };
        self.tell(self.owners[partition], partition, &asked)
    }

    /// Whether a `JoinGroup` waits for its answer.
    fn is_joined(&self, group: usize) -> bool {
        let is_join = |body: &Asked| matches!(body, Asked::JoinGroup { .. });
        self.waiting.values().any(|waiting| waiting.asked.group == group && is_join(&waiting.asked.body))
    }
}
