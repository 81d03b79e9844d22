//! Somebody who looks at groups from outside, with `DescribeGroups`, every other second.

use rota_core::{Request, Ticket, request::DescribeGroup};
use rota_journal::Event;

use super::{Fleet, Happening, log::Described};

const PERIOD_MS: u64 = 2_000;
/// A group that has lost its last member is Empty as soon as the initial delay, half a second, is over. Three looks in a
/// row that find it waiting do not find three such moments.
const LOOKS: u32 = 3;
const VERSION: i16 = 5;

impl Fleet {
    /// Asks for each group, and comes again.
    pub(super) fn inspect(&mut self) {
        for group in 0..self.shape.groups.len() {
            let id = self.shape.groups[group].id.clone();
            let partition = rota_core::partition_for(&id, self.shape.partitions) as usize;
            self.tickets += 1;
            let request = Request::DescribeGroup(DescribeGroup { version: VERSION, group_id: Some(&id) });
            let asked = Event::Submitted { ticket: Ticket(self.tickets), entropy: 0, request };
            let described = self.tell(self.owners[partition], partition, &asked);
            self.look("L1");
            let waits_for_nobody = |found: &Described| found.state == "PreparingRebalance" && found.members == 0;
            self.waits_for_nobody[group] =
                if described.as_ref().is_some_and(waits_for_nobody) { self.waits_for_nobody[group] + 1 } else { 0 };
            if self.waits_for_nobody[group] == LOOKS {
                self.violated("L1", format!("{id} has no members, and waits for them"));
            }
        }
        self.queue.push(self.now_ms + PERIOD_MS, Happening::Inspect);
    }
}
