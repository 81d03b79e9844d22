//! How a virtual clock is moved: from deadline to deadline, over all nodes, in an order that does not depend on
//! threads. While it moves, the nodes do nothing else.

use std::sync::mpsc::{Receiver, Sender};

use crate::{base::clock::Clock, node::Node};

/// How many rounds of deadlines one instant of a virtual clock may have. More is a deadline that does not go away.
const ROUNDS_AT_ONE_INSTANT_MAX: u32 = 10_000;

/// A node whose deadlines are fired by somebody who moves its clock.
pub trait Hand {
    /// The clock has reached a deadline of this node. Gives the next one; `Err`: the node is no more.
    fn fire(&mut self) -> Result<Option<u64>, Gone>;
}

/// A node has stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gone;

/// Moves `clock` to `target_ms`. `deadlines` are those of `hands`; what is due at the same time is fired in the order
/// of the nodes.
pub fn conduct<H: Hand>(
    clock: &Clock,
    target_ms: u64,
    hands: &mut [H],
    mut deadlines: Vec<Option<u64>>,
) -> Result<(), Gone> {
    let (mut instant_ms, mut rounds) = (0, 0);
    while let Some(deadline_ms) = deadlines.iter().flatten().min().copied().filter(|earliest| *earliest <= target_ms) {
        clock.move_to(deadline_ms);
        let now_ms = clock.now().mono_ms;
        rounds = if now_ms == instant_ms { rounds + 1 } else { 0 };
        instant_ms = now_ms;
        assert!(rounds < ROUNDS_AT_ONE_INSTANT_MAX, "a deadline at {now_ms} ms does not go away");
        for (hand, deadline) in hands.iter_mut().zip(&mut deadlines) {
            if deadline.is_some_and(|deadline_ms| deadline_ms <= now_ms) {
                *deadline = hand.fire()?;
            }
        }
    }
    clock.move_to(target_ms);
    Ok(())
}

/// The node itself, on its own thread.
pub struct Here<'n> {
    /// The node.
    pub node: &'n mut Node,
    /// Members that lapse although their clients are there.
    pub expire: &'n [String],
}

impl Hand for Here<'_> {
    fn fire(&mut self) -> Result<Option<u64>, Gone> {
        Ok(self.node.fire(self.expire))
    }
}

/// A node on another thread, where [`stand_still`] waits for the word.
pub struct There {
    /// Says that the node is to fire what is due.
    pub word: Sender<()>,
    /// Its deadlines: one at once, then one after each word.
    pub deadlines: Receiver<Option<u64>>,
}

impl Hand for There {
    fn fire(&mut self) -> Result<Option<u64>, Gone> {
        self.word.send(()).map_err(|_| Gone)?;
        self.deadlines.recv().map_err(|_| Gone)
    }
}

/// What a node does while somebody else moves its clock: nothing but what it is told, until there is no more word.
pub fn stand_still(node: &mut Node, expire: &[String], word: &Receiver<()>, deadlines: &Sender<Option<u64>>) {
    let mut next = node.next_deadline();
    // Whoever moves the clock may have given up: then there is no word either.
    while deadlines.send(next).is_ok() && word.recv().is_ok() {
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

    impl Hand for Planned {
        fn fire(&mut self) -> Result<Option<u64>, Gone> {
            self.fired.borrow_mut().push((self.at, self.clock.now().mono_ms));
            self.deadlines.pop();
            Ok(self.deadlines.last().copied())
        }
    }

    fn conducted(deadlines: &[&[u64]], target_ms: u64) -> (Result<(), Gone>, Vec<(usize, u64)>, u64) {
        let (clock, fired) = (Clock::standing(), Fired::default());
        let mut hands: Vec<Planned> = deadlines
            .iter()
            .enumerate()
            .map(|(at, deadlines)| {
                let deadlines = deadlines.iter().rev().copied().collect();
                Planned { at, deadlines, clock: clock.clone(), fired: Rc::clone(&fired) }
            })
            .collect();
        let first = hands.iter().map(|hand| hand.deadlines.last().copied()).collect();
        let result = conduct(&clock, target_ms, &mut hands, first);
        let order = fired.borrow().clone();
        (result, order, clock.now().mono_ms)
    }

    #[test]
    fn deadlines_fire_by_time_and_then_by_node_and_those_beyond_the_target_do_not() {
        let (result, fired, now_ms) = conducted(&[&[20, 30], &[10, 20, 51], &[]], 50);
        assert_eq!((result, now_ms), (Ok(()), 50));
        assert_eq!(fired, [(1, 10), (0, 20), (1, 20), (0, 30)]);
    }

    #[test]
    fn what_a_deadline_arms_at_the_same_instant_fires_in_another_round() {
        let (_, fired, _) = conducted(&[&[10, 10], &[10]], 10);
        assert_eq!(fired, [(0, 10), (1, 10), (0, 10)]);
    }

    #[test]
    #[should_panic(expected = "a deadline at 10 ms does not go away")]
    fn a_deadline_that_does_not_go_away_is_a_bug_that_is_named() {
        let _never = conducted(&[&vec![10; ROUNDS_AT_ONE_INSTANT_MAX as usize + 10]], 10);
    }
}
