//! The most even loads: blocks of members, and the number of partitions for each member.
//!
//! A block of `n` members and `N` partitions ideally gives each member `q = N / n`, and `N mod n` of them one more. Two
//! maximum flows show whether that is possible. If not, the partitions that cannot flow show a cut: members that only
//! lead to full ones hold more than the others can take. The block splits into an upper part (these members with all
//! classes that lead only to them) and a lower part. No best plan gives a partition of one part's classes to a member
//! of the other, since every upper member has at least the load of any lower one. The parts are blocks again.

use crate::network::{NONE, Network, Passage};

/// Unlimited flow within a block, up to the block's limit per member.
struct Limits;

impl Passage for Limits {
    fn forward(&self, network: &Network, edge: u32) -> u32 {
        if network.is_open(edge) { u32::MAX } else { 0 }
    }

    fn backward(&self, network: &Network, edge: u32) -> u32 {
        network.flow(edge)
    }

    fn out(&self, network: &Network, member: u32) -> u32 {
        network.limit[network.member_block[member as usize] as usize].saturating_sub(network.load[member as usize])
    }
}

/// Finds the blocks, their quotas, and a flow in which every member has its block's quota or one more. Each round of
/// two maximum flows settles or splits a block; there are fewer than twice as many blocks as members.
pub(crate) fn settle(network: &mut Network) {
    network.quota.clear();
    network.limit.clear();
    if network.load.is_empty() {
        return;
    }
    network.quota.push(0);
    network.limit.push(0);
    let mut open = vec![true];
    while open.contains(&true) {
        let (members, partitions) = sizes(network, open.len());
        network.drain(|network, class| open[network.class_block[class as usize] as usize]);
        for block in 0..open.len() {
            if open[block] {
                network.quota[block] = partitions[block].checked_div(members[block]).unwrap_or(0) as u32;
                network.limit[block] = network.quota[block];
            }
        }
        pour(network, &open);
        network.saturate(&Limits);
        let mut short = vec![false; open.len()];
        for member in 0..network.load.len() {
            let block = network.member_block[member] as usize;
            short[block] |= network.load[member] < network.quota[block];
        }
        let whole: Vec<bool> = open.iter().zip(&short).map(|(&open, &short)| open && !short).collect();
        cut(network, &mut open, &short);
        for (limit, &whole) in network.limit.iter_mut().zip(&whole) {
            *limit += u32::from(whole);
        }
        network.saturate(&Limits);
        let mut full = vec![false; open.len()];
        for class in 0..network.left.len() {
            full[network.class_block[class] as usize] |= network.left[class] > 0;
        }
        full[whole.len()..].fill(false); // the upper parts that were cut off above, which are open anyway
        for ((open, full), &whole) in open.iter_mut().zip(&mut full).zip(&whole) {
            *full &= whole;
            *open &= !whole || *full;
        }
        cut(network, &mut open, &full);
    }
}

/// Lets the remaining partitions flow along any path: up to every block's quota first, then one more. Loads never
/// shrink and a full flow exists, so they become those of [`settle`].
pub(crate) fn fill(network: &mut Network) {
    network.limit.clone_from(&network.quota);
    network.saturate(&Limits);
    network.limit.iter_mut().for_each(|limit| *limit += 1);
    network.saturate(&Limits);
}

/// Returns the number of members and partitions of each block.
fn sizes(network: &Network, blocks: usize) -> (Vec<u64>, Vec<u64>) {
    let (mut members, mut partitions) = (vec![0; blocks], vec![0; blocks]);
    for &block in &network.member_block {
        members[block as usize] += 1;
    }
    for (&block, &supply) in network.class_block.iter().zip(&network.supply) {
        partitions[block as usize] += u64::from(supply);
    }
    (members, partitions)
}

/// Moves the nodes that the last search reached in some blocks into new blocks.
fn cut(network: &mut Network, open: &mut Vec<bool>, which: &[bool]) {
    let mut upper = vec![NONE; which.len()];
    for (block, _) in which.iter().enumerate().filter(|&(_, &cut)| cut) {
        upper[block] = open.len() as u32;
        open.push(true);
        network.quota.push(network.quota[block]);
        network.limit.push(network.limit[block]);
    }
    let classes = network.class_block.len();
    let (of_classes, of_members) = network.level.split_at(classes);
    for (levels, blocks) in [(of_classes, &mut network.class_block), (of_members, &mut network.member_block)] {
        for (&level, block) in levels.iter().zip(blocks) {
            let upper = upper.get(*block as usize).copied().unwrap_or(NONE);
            if level != NONE && upper != NONE {
                *block = upper;
            }
        }
    }
}

/// Computes a first flow: each class fills its members to a common level, as far as the limit allows. This leaves
/// little for the search.
fn pour(network: &mut Network, open: &[bool]) {
    for class in 0..network.classes() {
        let block = network.class_block[class as usize] as usize;
        if !open[block] {
            continue;
        }
        let room_below = |network: &Network, level: u32| -> u64 {
            let edges = network.edges_of(class).filter(|&edge| network.is_open(edge));
            edges.map(|edge| u64::from(level.saturating_sub(network.load[network.member_of(edge) as usize]))).sum()
        };
        let left = u64::from(network.left[class as usize]);
        let (mut low, mut high) = (0, network.limit[block]);
        while low < high {
            let middle = low + (high - low) / 2;
            if room_below(network, middle) < left { low = middle + 1 } else { high = middle }
        }
        for level in [low.saturating_sub(1), low] {
            for edge in network.edges_of(class).filter(|_| low > 0) {
                let room = level.saturating_sub(network.load[network.member_of(edge) as usize]);
                if network.is_open(edge) {
                    network.give(edge, room.min(network.left[class as usize]));
                }
            }
        }
    }
}
