//! How a virtual clock is moved: from deadline to deadline, over all nodes, in an order that does not depend on
//! threads. While it moves, the nodes do nothing else.

use std::sync::mpsc::{Receiver, Sender};

use crate::{clock::Clock, node::Node};

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
