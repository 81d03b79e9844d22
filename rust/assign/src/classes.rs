//! Subscribers of topics, and topics with the same subscribers.

use crate::problem::Problem;

/// Subscribers of each topic, ascending. Topics may share a list.
#[derive(Debug, Default)]
pub struct Subscribers {
    /// By topic: range of its list in `members`.
    spans: Vec<(u32, u32)>,
    members: Vec<u32>,
    /// Whether all members with a subscription have the same one.
    equal: bool,
}

impl Subscribers {
    /// Returns the subscribers of one topic.
    pub fn of(&self, topic: u32) -> &[u32] {
        let (start, end) = self.spans[topic as usize];
        &self.members[start as usize..end as usize]
    }

    /// Returns all members with a subscription if these are the same. Members without one do not count.
    pub fn all_equal(&self) -> Option<&[u32]> {
        self.equal.then_some(&self.members)
    }

    /// Inverts the members' lists of topics into the topics' lists of members, in O(subscriptions).
    pub fn fill(&mut self, problem: &Problem<'_>) {
        self.spans.clear();
        self.spans.resize(problem.topics() as usize, (0, 0));
        self.members.clear();
        let mut subscribed = (0..problem.members()).filter(|&member| !problem.topics_of(member).is_empty());
        let first = subscribed.next().map_or(&[][..], |member| problem.topics_of(member));
        self.equal = subscribed.all(|member| problem.topics_of(member) == first);
        if self.equal {
            self.members.extend((0..problem.members()).filter(|&member| !problem.topics_of(member).is_empty()));
            for &topic in first {
                self.spans[topic as usize] = (0, self.members.len() as u32);
            }
            return;
        }
        for &topic in problem.subscriptions() {
            self.spans[topic as usize].1 += 1;
        }
        let mut end = 0;
        for span in &mut self.spans {
            let count = span.1;
            *span = (end, end);
            end += count;
        }
        self.members.resize(problem.subscriptions().len(), 0);
        for member in 0..problem.members() {
            for &topic in problem.topics_of(member) {
                let span = &mut self.spans[topic as usize];
                self.members[span.1 as usize] = member;
                span.1 += 1;
            }
        }
    }

    /// Computes for each topic the first one with the same subscribers. Lists are compared by fingerprint first, in
    /// O(subscriptions + topics log topics) unless fingerprints collide. Collisions do not change the result.
    pub fn alike(&self, alike: &mut Vec<u32>) {
        let mut order: Vec<(u32, u64, u32)> = Vec::with_capacity(self.spans.len());
        for topic in 0..self.spans.len() as u32 {
            let members = self.of(topic);
            let print = members.iter().fold(0_u64, |print, &member| mixed(print ^ u64::from(member)));
            order.push((members.len() as u32, print, topic));
        }
        order.sort_unstable();
        alike.clear();
        alike.resize(self.spans.len(), 0);
        let mut run = 0;
        for at in 0..order.len() {
            let (count, print, topic) = order[at];
            if (order[run].0, order[run].1) != (count, print) {
                run = at;
            }
            let members = self.of(topic);
            let known = order[run..at].iter().map(|entry| alike[entry.2 as usize]).find(|&it| self.of(it) == members);
            alike[topic as usize] = known.unwrap_or(topic);
        }
    }
}

/// One round of splitmix64.
fn mixed(value: u64) -> u64 {
    let value = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn topics_know_their_subscribers() {
        let problem = Problem::new(&[0, 1, 2, 3], &[0, 2, 2, 3], &[0, 2, 2], None).unwrap();
        let mut subscribers = Subscribers::default();
        subscribers.fill(&problem);
        assert_eq!([0, 1, 2].map(|topic| subscribers.of(topic).to_vec()), [vec![0], vec![], vec![0, 2]]);
        assert_eq!(subscribers.all_equal(), None);
    }

    #[test]
    fn a_member_without_topics_does_not_make_subscriptions_unequal() {
        let problem = Problem::new(&[0, 1, 2], &[0, 0, 1, 2], &[1, 1], None).unwrap();
        let mut subscribers = Subscribers::default();
        subscribers.fill(&problem);
        assert_eq!(subscribers.all_equal(), Some(&[1, 2][..]));
        assert_eq!(subscribers.of(0), [0; 0]);
        assert_eq!(subscribers.of(1), [1, 2]);
    }

    #[test]
    fn topics_are_alike_when_their_subscribers_are() {
        let problem = Problem::new(&[0, 1, 2, 3, 4], &[0, 3, 6], &[0, 1, 3, 0, 2, 3], None).unwrap();
        let mut subscribers = Subscribers::default();
        subscribers.fill(&problem);
        let mut alike = Vec::new();
        subscribers.alike(&mut alike);
        assert_eq!(alike, [0, 1, 2, 0]);
    }
}
