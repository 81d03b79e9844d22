//! Moves a virtual clock from deadline to deadline over all nodes, in an order that does not depend on threads. The
//! nodes handle no requests while the clock moves.

use std::sync::mpsc::{Receiver, Sender};

use crate::{base::clock::Clock, node::Node};

/// Rounds of deadlines at one instant of a virtual clock. More means that firing a deadline does not remove it.
const ROUNDS_AT_ONE_INSTANT_MAX: u32 = 10_000;

/// A node while another component moves its clock.
pub trait ClockedNode {
    /// Fires what is due and returns the node's next deadline. Fails if the node has stopped.
    fn fire(&mut self) -> Result<Option<u64>, NodeStopped>;
}

/// A node has stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeStopped;

/// Moves `clock` to `target_ms`. `deadlines` has the next deadline of each of `nodes`. Nodes that are due at the same
/// time fire in their order here.
pub fn advance_to<H: ClockedNode>(
    clock: &Clock,
    target_ms: u64,
    nodes: &mut [H],
    mut deadlines: Vec<Option<u64>>,
) -> Result<(), NodeStopped> {
    let (mut instant_ms, mut rounds) = (0, 0);
    while let Some(deadline_ms) = deadlines.iter().flatten().min().copied().filter(|earliest| *earliest <= target_ms) {
        clock.move_to(deadline_ms);
        let now_ms = clock.now().mono_ms;
        rounds = if now_ms == instant_ms { rounds + 1 } else { 0 };
        instant_ms = now_ms;
        assert!(rounds < ROUNDS_AT_ONE_INSTANT_MAX, "a deadline at {now_ms} ms does not go away");
        for (node, deadline) in nodes.iter_mut().zip(&mut deadlines) {
            if deadline.is_some_and(|deadline_ms| deadline_ms <= now_ms) {
                *deadline = node.fire()?;
            }
        }
    }
    clock.move_to(target_ms);
    Ok(())
}

/// A node on the current thread.
pub struct LocalNode<'n> {
    /// The node whose timers fire.
    pub node: &'n mut Node,
    /// Ids of members whose sessions may expire although their clients are connected.
    pub expire: &'n [String],
}

impl ClockedNode for LocalNode<'_> {
    fn fire(&mut self) -> Result<Option<u64>, NodeStopped> {
        Ok(self.node.fire(self.expire))
    }
}

/// A node on another thread, which runs [`follow_clock`].
pub struct RemoteNode {
    /// Orders the node to fire what is due.
    pub fire: Sender<()>,
    /// The next deadline of the node: once at the start, then after each order.
    pub deadlines: Receiver<Option<u64>>,
}

impl ClockedNode for RemoteNode {
    fn fire(&mut self) -> Result<Option<u64>, NodeStopped> {
        self.fire.send(()).map_err(|_| NodeStopped)?;
        self.deadlines.recv().map_err(|_| NodeStopped)
    }
}

/// Fires what is due after each message from `fire`, until its sender is dropped. The node does nothing else meanwhile.
pub fn follow_clock(node: &mut Node, expire: &[String], fire: &Receiver<()>, deadlines: &Sender<Option<u64>>) {
    let mut next = node.next_deadline();
    // The receiver of deadlines may be gone after an error; then `fire` is closed, too.
    while deadlines.send(next).is_ok() && fire.recv().is_ok() {
        next = node.fire(expire);
    }
}

#[cfg(test)]
mod tests {
    use std::{cell::RefCell, rc::Rc};

    use super::*;

    /// What was fired: node and time.
    type Fired = Rc<RefCell<Vec<(usize, u64)>>>;

    /// A node with these deadlines, first ones last.
    struct Planned {
        at: usize,
        deadlines: Vec<u64>,
        clock: Clock,
        fired: Fired,
    }

    impl ClockedNode for Planned {
        fn fire(&mut self) -> Result<Option<u64>, NodeStopped> {
            self.fired.borrow_mut().push((self.at, self.clock.now().mono_ms));
            self.deadlines.pop();
            Ok(self.deadlines.last().copied())
        }
    }

    fn advanced_to(deadlines: &[&[u64]], target_ms: u64) -> (Result<(), NodeStopped>, Vec<(usize, u64)>, u64) {
        let (clock, fired) = (Clock::standing(), Fired::default());
        let mut nodes: Vec<Planned> = deadlines
            .iter()
            .enumerate()
            .map(|(at, deadlines)| {
                let deadlines = deadlines.iter().rev().copied().collect();
                Planned { at, deadlines, clock: clock.clone(), fired: Rc::clone(&fired) }
            })
            .collect();
        let first = nodes.iter().map(|node| node.deadlines.last().copied()).collect();
        let result = advance_to(&clock, target_ms, &mut nodes, first);
        let order = fired.borrow().clone();
        (result, order, clock.now().mono_ms)
    }

    #[test]
    fn deadlines_fire_by_time_and_then_by_node_and_those_beyond_the_target_do_not() {
        let (result, fired, now_ms) = advanced_to(&[&[20, 30], &[10, 20, 51], &[]], 50);
        assert_eq!((result, now_ms), (Ok(()), 50));
        assert_eq!(fired, [(1, 10), (0, 20), (1, 20), (0, 30)]);
    }

    #[test]
    fn what_a_deadline_arms_at_the_same_instant_fires_in_another_round() {
        let (_, fired, _) = advanced_to(&[&[10, 10], &[10]], 10);
        assert_eq!(fired, [(0, 10), (1, 10), (0, 10)]);
    }

    #[test]
    #[should_panic(expected = "a deadline at 10 ms does not go away")]
    fn a_deadline_that_does_not_go_away_is_a_bug_that_is_named() {
        let _never = advanced_to(&[&vec![10; ROUNDS_AT_ONE_INSTANT_MAX as usize + 10]], 10);
    }
}
