//! What a group counts of its members, so that a request does not look at all of them.
//!
//! Counts are no part of the state: a scan makes each when it is needed first (`scans`), and every record that is folded
//! into the group keeps it right from then on.

use std::{
    collections::BTreeMap,
    sync::{Arc, OnceLock},
};

use crate::records::SubscriptionValue;

/// How many members name each topic.
pub(super) type Named = BTreeMap<Arc<str>, usize>;

/// The counts of a group that were needed so far.
#[derive(Clone, Debug, Default)]
pub(super) struct Counts {
    pub named: OnceLock<Named>,
    /// How many members do not own yet what the target gives them.
    pub late: OnceLock<usize>,
}

impl Counts {
    /// A subscription has taken the place of another one; `None`: of none.
    pub fn resubscribed(&mut self, before: Option<&SubscriptionValue>, after: Option<&SubscriptionValue>) {
        let Some(named) = self.named.get_mut() else { return };
        let [before, after] = [before, after].map(|value| value.map_or(&[][..], |value| &value.topic_names));
        if before == after {
            return;
        }
        for name in after {
            *named.entry(Arc::clone(name)).or_default() += 1;
        }
        for name in before {
            if let Some(count) = named.get_mut(name) {
                *count -= 1;
                if *count == 0 {
                    named.remove(name);
                }
            }
        }
    }

    /// A member has changed that was late before or not, and is now or not.
    pub fn changed(&mut self, was_late: bool, is_late: bool) {
        if let Some(late) = self.late.get_mut() {
            *late = *late + usize::from(is_late) - usize::from(was_late);
        }
    }

    /// The target is another one: who is late is to be counted again.
    pub fn retargeted(&mut self) {
        self.late.take();
    }
}
