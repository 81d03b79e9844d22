//! The fewest moves for the most even loads: a minimum-cost flow by successive shortest paths.
//!
//! A partition with its previous owner costs nothing, with another member one move. With a member whose rack has no
//! replica it costs more than all moves of any path. A partition that lifts a member above its block's quota costs more
//! than that. Paths of equal cost are used together, so there are as many rounds as distinct costs, and each lets at
//! least one partition flow.

use std::{cmp::Reverse, collections::BinaryHeap};

use crate::{
    levels,
    network::{Network, Passage},
};

/// Number of visited edges after which the search for the fewest moves stops, after some seconds. Only groups with more
/// than a million subscriptions that move nearly everything reach it.
pub(crate) const VISITS_MAX: u64 = 1 << 30;

/// The cost of reaching each node. Along usable arcs the difference is their price.
struct Prices {
    of_classes: Vec<i64>,
    of_members: Vec<i64>,
    out: i64,
    away: i64,
    above_quota: i64,
}

impl Prices {
    /// Returns the cost of one more partition along an edge, and the number available at that price.
    fn forward(&self, network: &Network, edge: u32) -> (i64, u32) {
        let (flow, held) = (network.flow(edge), network.held(edge));
        let away = if network.is_away(edge) { self.away } else { 0 };
        if flow < held { (away, held - flow) } else { (away + 1, u32::MAX - flow) }
    }

    /// Returns the saving of one partition less along an edge, and the number available at that price.
    fn backward(&self, network: &Network, edge: u32) -> (i64, u32) {
        let (flow, held) = (network.flow(edge), network.held(edge));
        let away = if network.is_away(edge) { self.away } else { 0 };
        if flow > held { (away + 1, flow - held) } else { (away, flow) }
    }

    /// Returns the cost of one more partition for a member, and the number available at that price.
    fn out(&self, network: &Network, member: u32) -> (i64, u32) {
        let quota = network.quota[network.member_block[member as usize] as usize];
        let load = network.load[member as usize];
        if load < quota { (0, quota - load) } else { (self.above_quota, u32::from(load == quota)) }
    }
}

impl Passage for Prices {
    fn forward(&self, network: &Network, edge: u32) -> u32 {
        let (class, member) = (network.class_of(edge) as usize, network.member_of(edge) as usize);
        let (price, room) = self.forward(network, edge);
        if price + self.of_classes[class] == self.of_members[member] && network.is_open(edge) { room } else { 0 }
    }

    fn backward(&self, network: &Network, edge: u32) -> u32 {
        let (class, member) = (network.class_of(edge) as usize, network.member_of(edge) as usize);
        let (price, room) = self.backward(network, edge);
        if self.of_members[member] - price == self.of_classes[class] { room } else { 0 }
    }

    fn out(&self, network: &Network, member: u32) -> u32 {
        let (price, room) = self.out(network, member);
        if self.of_members[member as usize] + price == self.out { room } else { 0 }
    }
}

/// Turns the flow of [`settle`](crate::levels::settle) into the cheapest one. After `visits_max` visited edges,
/// remaining partitions take any path: the loads are the same, the moves possibly not the fewest.
pub(crate) fn minimise(network: &mut Network, visits_max: u64) {
    network.visits = 0;
    network.drain(|_, _| true);
    keep(network);
    let (classes, members) = (network.supply.len(), network.load.len());
    // More than the arcs of a path, and its square, so that costs compare like digits.
    let away = 4 * (classes + members) as i64 + 8;
    let mut prices =
        Prices { of_classes: vec![0; classes], of_members: vec![0; members], out: 0, away, above_quota: away * away };
    let mut distances = Distances::default();
    loop {
        network.saturate(&prices);
        if network.left.iter().all(|&left| left == 0) {
            return;
        }
        if network.visits > visits_max || !distances.raise(network, &mut prices) {
            levels::fill(network);
            return;
        }
    }
}

/// Moves that cost nothing need no search: every member keeps its partitions in its rack, up to its quota.
fn keep(network: &mut Network) {
    for class in 0..network.classes() {
        for edge in network.edges_of(class) {
            let member = network.member_of(edge) as usize;
            let room = network.quota[network.member_block[member] as usize] - network.load[member];
            if room > 0 && network.is_open(edge) && !network.is_away(edge) {
                network.give(edge, network.held(edge).min(room));
            }
        }
    }
}

#[derive(Default)]
struct Distances {
    /// By node, classes first: the excess of its cost over its price.
    found: Vec<i64>,
    heap: BinaryHeap<Reverse<(i64, u32)>>,
}

impl Distances {
    /// Raises the prices to the costs of the shortest paths from the remaining partitions, up to the cheapest exit.
    /// Returns false if there is no exit.
    fn raise(&mut self, network: &mut Network, prices: &mut Prices) -> bool {
        let classes = network.supply.len();
        network.visits += network.edges();
        self.search(network, prices);
        let outs = (0..network.load.len()).filter_map(|member| {
            let (price, room) = prices.out(network, member as u32);
            let found = self.found[classes + member];
            (room > 0 && found < i64::MAX).then(|| found + prices.of_members[member] + price)
        });
        let Some(out) = outs.min() else { return false };
        let more = out - prices.out;
        for (price, &found) in prices.of_classes.iter_mut().chain(&mut prices.of_members).zip(&self.found) {
            *price += found.min(more);
        }
        prices.out = out;
        true
    }

    /// Dijkstra's algorithm on reduced prices, which are not negative.
    fn search(&mut self, network: &Network, prices: &Prices) {
        let classes = network.supply.len() as u32;
        self.found.clear();
        self.found.resize(network.supply.len() + network.load.len(), i64::MAX);
        self.heap.clear();
        for class in (0..classes).filter(|&class| network.left[class as usize] > 0) {
            self.reach(class, 0);
        }
        while let Some(Reverse((distance, node))) = self.heap.pop() {
            if distance > self.found[node as usize] {
                continue;
            }
            if node < classes {
                let base = distance + prices.of_classes[node as usize];
                for edge in network.edges_of(node).filter(|&edge| network.is_open(edge)) {
                    let member = network.member_of(edge);
                    let (price, room) = prices.forward(network, edge);
                    if room > 0 {
                        self.reach(classes + member, base + price - prices.of_members[member as usize]);
                    }
                }
            } else {
                let base = distance + prices.of_members[(node - classes) as usize];
                for &edge in network.edges_to(node - classes) {
                    let class = network.class_of(edge);
                    let (price, room) = prices.backward(network, edge);
                    if room > 0 {
                        self.reach(class, base - price - prices.of_classes[class as usize]);
                    }
                }
            }
        }
    }

    fn reach(&mut self, node: u32, distance: i64) {
        if distance < self.found[node as usize] {
            self.found[node as usize] = distance;
            self.heap.push(Reverse((distance, node)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{classes::Subscribers, problem::Problem};

    /// The settled network of three members with two of three topics each; the first member had everything.
    fn settled() -> Network {
        let problem = Problem::new(&[0, 9, 11, 14], &[0, 2, 4, 6], &[0, 1, 0, 2, 1, 2], None).unwrap();
        let (mut subscribers, mut alike, mut network) = (Subscribers::default(), Vec::new(), Network::default());
        subscribers.fill(&problem);
        subscribers.alike(&mut alike);
        network.build(&problem, &subscribers, &alike, None);
        network.hold(&problem, &[0; 14]);
        levels::settle(&mut network);
        network
    }

    fn kept(network: &Network) -> u32 {
        (0..network.classes())
            .flat_map(|class| network.edges_of(class))
            .map(|edge| network.flow(edge).min(network.held(edge)))
            .sum()
    }

    #[test]
    fn loads_are_as_even_when_the_fewest_moves_are_given_up() {
        let (mut exact, mut hasty) = (settled(), settled());
        minimise(&mut exact, VISITS_MAX);
        minimise(&mut hasty, 0);
        for network in [&mut exact, &mut hasty] {
            assert!(network.left.iter().all(|&left| left == 0));
            network.load.sort_unstable();
            assert_eq!(network.load, [4, 5, 5]);
        }
        assert!(kept(&exact) == 5 && kept(&hasty) <= 5);
    }

    #[test]
    fn a_flow_of_least_cost_looks_at_few_edges() {
        let mut network = settled();
        minimise(&mut network, VISITS_MAX);
        assert!((1..100).contains(&network.visits), "{}", network.visits);
    }
}
