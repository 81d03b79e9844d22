//! The group as a flow network: partitions flow from classes to members.
//!
//! A class is a set of partitions that the rules cannot tell apart: those of all topics with the same subscribers and,
//! where racks matter, with replicas in the same racks. An edge leads from a class to each subscriber; its flow is how
//! many of the class's partitions the member gets. So the size of the network is that of the subscriptions, not of the
//! partitions. A block is a set of members and classes that is planned for itself: an edge between two blocks is closed.

use std::ops::Range;

use crate::{
    classes::Subscribers,
    problem::{CONTESTED, Problem, Racks},
};

/// No edge, level or block.
pub(crate) const NONE: u32 = u32::MAX;

/// Classes, members, edges and the flow.
#[derive(Debug, Default)]
pub struct Network {
    /// By class, plus one element: start of its edges.
    edge_starts: Vec<u32>,
    /// Member by edge, ascending within a class.
    edge_member: Vec<u32>,
    edge_class: Vec<u32>,
    /// By member: start in `member_edges` of the edges that had a flow at the last search.
    member_starts: Vec<u32>,
    member_edges: Vec<u32>,
    /// By class: start in `contents` of its topics, or of its partitions if racks matter.
    content_starts: Vec<u32>,
    contents: Vec<u32>,
    by_partition: bool,
    /// By edge: whether the member's rack has no replica. Empty if racks do not matter.
    away: Vec<bool>,
    /// By class: number of partitions, and number of those without a flow.
    pub supply: Vec<u32>,
    pub left: Vec<u32>,
    held: Vec<u32>,
    flow: Vec<u32>,
    /// Load by member.
    pub load: Vec<u32>,
    pub class_block: Vec<u32>,
    pub member_block: Vec<u32>,
    /// By block: minimum partitions per member, and the current maximum.
    pub quota: Vec<u32>,
    pub limit: Vec<u32>,
    /// By node, classes first: its distance in the last search, and its next arc to try.
    pub level: Vec<u32>,
    arc: Vec<u32>,
    queue: Vec<u32>,
    path: Vec<(u32, bool)>,
    /// Upper bound of the edges visited by all searches since [`build`](Network::build).
    pub visits: u64,
}

/// The usable arcs of the residual network and their capacity.
pub(crate) trait Passage {
    /// Returns the capacity from an edge's class to its member.
    fn forward(&self, network: &Network, edge: u32) -> u32;
    /// Returns the capacity from an edge's member back to its class.
    fn backward(&self, network: &Network, edge: u32) -> u32;
    /// Returns the capacity out of the network at a member.
    fn out(&self, network: &Network, member: u32) -> u32;
}

impl Network {
    /// Builds the classes and edges of a group. `racks` is `None` unless racks matter.
    pub fn build(&mut self, problem: &Problem<'_>, subscribers: &Subscribers, alike: &[u32], racks: Option<Racks<'_>>) {
        self.by_partition = racks.is_some();
        // The key of a class: its first topic and its racks, in topic order.
        let keys_max = if self.by_partition { problem.partitions() } else { problem.topics() };
        let mut keys: Vec<(u32, u32, u32)> = Vec::with_capacity(keys_max as usize);
        let mut known: Vec<u32> = Vec::new();
        for topic in 0..problem.topics() {
            let partitions = problem.partitions_of(topic);
            if subscribers.of(topic).is_empty() || partitions.is_empty() {
                continue;
            }
            let alike = alike[topic as usize];
            match &racks {
                Some(racks) => keys.extend(partitions.map(|one| (alike, first_alike(racks, one, &mut known), one))),
                None => keys.push((alike, 0, topic)),
            }
        }
        keys.sort_unstable();
        for starts in [&mut self.edge_starts, &mut self.content_starts] {
            starts.clear();
            starts.push(0);
        }
        for list in [&mut self.contents, &mut self.edge_member, &mut self.edge_class, &mut self.supply] {
            list.clear();
        }
        self.away.clear();
        self.contents.reserve_exact(keys.len());
        for class in keys.chunk_by(|one, other| (one.0, one.1) == (other.0, other.1)) {
            let members = subscribers.of(class[0].0);
            self.edge_class.extend(members.iter().map(|_| self.supply.len() as u32));
            self.edge_member.extend_from_slice(members);
            if let Some(racks) = &racks {
                self.away.extend(members.iter().map(|&member| !racks.matches(member, class[0].2)));
            }
            self.contents.extend(class.iter().map(|key| key.2));
            let partitions = |key: &(u32, u32, u32)| {
                if self.by_partition { 1 } else { problem.partitions_of(key.2).len() as u32 }
            };
            self.supply.push(class.iter().map(partitions).sum());
            self.edge_starts.push(self.edge_member.len() as u32);
            self.content_starts.push(self.contents.len() as u32);
        }
        self.empty(problem.members() as usize);
    }

    /// Resets the flow.
    fn empty(&mut self, members: usize) {
        let (classes, edges) = (self.supply.len(), self.edge_member.len());
        for (list, length) in [
            (&mut self.held, edges),
            (&mut self.flow, edges),
            (&mut self.load, members),
            (&mut self.member_block, members),
            (&mut self.class_block, classes),
        ] {
            list.clear();
            list.resize(length, 0);
        }
        self.left.clone_from(&self.supply);
        self.visits = 0;
    }

    /// Lists for each member its edges with a flow. Only these lead back from it, and there are never more of them than
    /// partitions, whatever its subscriptions.
    fn list_carrying(&mut self) {
        self.member_starts.clear();
        self.member_starts.resize(self.load.len() + 1, 0);
        for (&member, &flow) in self.edge_member.iter().zip(&self.flow) {
            self.member_starts[member as usize + 1] += u32::from(flow > 0);
        }
        for member in 0..self.load.len() {
            self.member_starts[member + 1] += self.member_starts[member];
        }
        self.arc.clone_from(&self.member_starts);
        self.member_edges.clear();
        self.member_edges.resize(self.arc[self.load.len()] as usize, 0);
        for (edge, (&member, _)) in
            self.edge_member.iter().zip(&self.flow).enumerate().filter(|(_, (_, flow))| **flow > 0)
        {
            let place = &mut self.arc[member as usize];
            self.member_edges[*place as usize] = edge as u32;
            *place += 1;
        }
    }

    /// Counts for each edge how many of the class's partitions the member had.
    pub fn hold(&mut self, problem: &Problem<'_>, previous: &[u32]) {
        let mut edge_of = vec![NONE; self.load.len()];
        for class in 0..self.classes() {
            for edge in self.edges_of(class) {
                edge_of[self.member_of(edge) as usize] = edge;
            }
            let mut held = std::mem::take(&mut self.held);
            self.each_partition(problem, class, |partition| {
                let had = previous[partition as usize];
                if had < CONTESTED && edge_of[had as usize] != NONE {
                    held[edge_of[had as usize] as usize] += 1;
                }
            });
            self.held = held;
            for edge in self.edges_of(class) {
                edge_of[self.member_of(edge) as usize] = NONE;
            }
        }
    }

    /// Whether any member had a partition that it may keep.
    pub fn holds_any(&self) -> bool {
        self.held.iter().any(|&held| held > 0)
    }

    /// Visits the partitions of one class, ascending.
    pub fn each_partition(&self, problem: &Problem<'_>, class: u32, mut visit: impl FnMut(u32)) {
        let span = self.content_starts[class as usize] as usize..self.content_starts[class as usize + 1] as usize;
        for &content in &self.contents[span] {
            if self.by_partition {
                visit(content);
            } else {
                problem.partitions_of(content).for_each(&mut visit);
            }
        }
    }

    /// Returns the number of classes.
    pub fn classes(&self) -> u32 {
        self.supply.len() as u32
    }

    /// Returns the number of edges.
    pub fn edges(&self) -> u64 {
        self.edge_member.len() as u64
    }

    /// Returns the edges of one class.
    pub fn edges_of(&self, class: u32) -> Range<u32> {
        self.edge_starts[class as usize]..self.edge_starts[class as usize + 1]
    }

    /// Returns the edges of one member that had a flow when the last search of [`saturate`](Network::saturate) began:
    /// after it, those with a flow.
    pub fn edges_to(&self, member: u32) -> &[u32] {
        let (start, end) = (self.member_starts[member as usize], self.member_starts[member as usize + 1]);
        &self.member_edges[start as usize..end as usize]
    }

    /// Returns the member of an edge.
    pub fn member_of(&self, edge: u32) -> u32 {
        self.edge_member[edge as usize]
    }

    /// Returns the class of an edge.
    pub fn class_of(&self, edge: u32) -> u32 {
        self.edge_class[edge as usize]
    }

    /// Returns how many partitions of the edge's class its member gets.
    pub fn flow(&self, edge: u32) -> u32 {
        self.flow[edge as usize]
    }

    /// Returns how many of them the member had.
    pub fn held(&self, edge: u32) -> u32 {
        self.held[edge as usize]
    }

    /// Whether the member's rack has no replica of the class.
    pub fn is_away(&self, edge: u32) -> bool {
        !self.away.is_empty() && self.away[edge as usize]
    }

    /// Whether class and member of an edge are in the same block.
    pub fn is_open(&self, edge: u32) -> bool {
        self.class_block[self.class_of(edge) as usize] == self.member_block[self.member_of(edge) as usize]
    }

    /// Adds a flow of `count` partitions to an edge.
    pub fn give(&mut self, edge: u32, count: u32) {
        let (class, member) = (self.class_of(edge) as usize, self.member_of(edge) as usize);
        self.flow[edge as usize] += count;
        self.load[member] += count;
        self.left[class] -= count;
    }

    /// Removes the flow out of some classes.
    pub fn drain(&mut self, mut which: impl FnMut(&Network, u32) -> bool) {
        for class in 0..self.classes() {
            if which(self, class) {
                for edge in self.edges_of(class) {
                    let flow = std::mem::take(&mut self.flow[edge as usize]);
                    self.load[self.edge_member[edge as usize] as usize] -= flow;
                }
                self.left[class as usize] = self.supply[class as usize];
            }
        }
    }

    /// Maximizes the flow that the passage allows, along shortest paths first. Afterwards `level` shows the nodes that
    /// remaining partitions can reach.
    pub fn saturate(&mut self, passage: &impl Passage) {
        while self.search(passage) {
            self.arc.clear();
            self.arc.extend_from_slice(&self.edge_starts[..self.supply.len()]);
            self.arc.extend_from_slice(&self.member_starts[..self.load.len()]);
            for class in 0..self.classes() {
                while self.left[class as usize] > 0 && self.level[class as usize] == 0 && self.find(class, passage) {
                    self.push(class, passage);
                }
            }
        }
    }

    /// Computes the distance of every node from the classes with remaining partitions, up to the nearest exit.
    fn search(&mut self, passage: &impl Passage) -> bool {
        self.list_carrying();
        self.visits += self.edges();
        let classes = self.classes();
        let mut queue = std::mem::take(&mut self.queue);
        queue.clear();
        self.level.clear();
        self.level.resize(self.supply.len() + self.load.len(), NONE);
        for class in 0..classes {
            if self.left[class as usize] > 0 {
                self.level[class as usize] = 0;
                queue.push(class);
            }
        }
        let (mut at, mut nearest) = (0, NONE);
        while at < queue.len() && self.level[queue[at] as usize] < nearest {
            let node = queue[at];
            let next = self.level[node as usize] + 1;
            at += 1;
            if node < classes {
                for edge in self.edges_of(node) {
                    let other = classes + self.member_of(edge);
                    if self.level[other as usize] == NONE && passage.forward(self, edge) > 0 {
                        self.level[other as usize] = next;
                        queue.push(other);
                        if passage.out(self, other - classes) > 0 {
                            nearest = nearest.min(next);
                        }
                    }
                }
            } else {
                let span = self.span_to(node - classes);
                for &edge in &self.member_edges[span] {
                    let other = self.class_of(edge);
                    if self.level[other as usize] == NONE && passage.backward(self, edge) > 0 {
                        self.level[other as usize] = next;
                        queue.push(other);
                    }
                }
            }
        }
        self.queue = queue;
        nearest != NONE
    }

    fn span_to(&self, member: u32) -> Range<usize> {
        self.member_starts[member as usize] as usize..self.member_starts[member as usize + 1] as usize
    }

    /// Finds a path from a class out of the network, one level deeper with each step, and stores it in `path`. New flow
    /// on such a path cannot flow back before the next search. Arcs that lead nowhere are not tried again before the
    /// next search.
    fn find(&mut self, from: u32, passage: &impl Passage) -> bool {
        let classes = self.classes();
        let mut path = std::mem::take(&mut self.path);
        path.clear();
        let mut node = from;
        let found = loop {
            if node >= classes && passage.out(self, node - classes) > 0 {
                break true;
            }
            if let Some((edge, forward)) = self.step(node, passage) {
                path.push((edge, forward));
                node = if forward { classes + self.member_of(edge) } else { self.class_of(edge) };
                continue;
            }
            // A dead end: back to the previous node and its next arc.
            self.level[node as usize] = NONE;
            let Some((edge, forward)) = path.pop() else { break false };
            node = if forward { self.class_of(edge) } else { classes + self.member_of(edge) };
            self.arc[node as usize] += 1;
        };
        self.path = path;
        found
    }

    /// Returns the next arc from a node that leads one level deeper.
    fn step(&mut self, node: u32, passage: &impl Passage) -> Option<(u32, bool)> {
        let classes = self.classes();
        let deeper = self.level[node as usize].checked_add(1)?;
        if node < classes {
            let end = self.edge_starts[node as usize + 1];
            while self.arc[node as usize] < end {
                let edge = self.arc[node as usize];
                let other = classes + self.member_of(edge);
                if self.level[other as usize] == deeper && passage.forward(self, edge) > 0 {
                    return Some((edge, true));
                }
                self.arc[node as usize] += 1;
            }
        } else {
            let end = self.member_starts[(node - classes) as usize + 1];
            while self.arc[node as usize] < end {
                let edge = self.member_edges[self.arc[node as usize] as usize];
                if self.level[self.class_of(edge) as usize] == deeper && passage.backward(self, edge) > 0 {
                    return Some((edge, false));
                }
                self.arc[node as usize] += 1;
            }
        }
        None
    }

    /// Pushes as much flow as the path in `path` carries.
    fn push(&mut self, from: u32, passage: &impl Passage) {
        let path = std::mem::take(&mut self.path);
        let end = path.last().map_or(0, |&(edge, _)| self.member_of(edge));
        let mut count = self.left[from as usize].min(passage.out(self, end));
        for &(edge, forward) in &path {
            let room = if forward { passage.forward(self, edge) } else { passage.backward(self, edge) };
            count = count.min(room);
        }
        for &(edge, forward) in &path {
            let flow = &mut self.flow[edge as usize];
            *flow = if forward { *flow + count } else { *flow - count };
        }
        self.load[end as usize] += count;
        self.left[from as usize] -= count;
        self.path = path;
    }
}

/// Returns the first partition with the same racks. `known` has one partition per rack list, in the order of the lists.
fn first_alike(racks: &Racks<'_>, partition: u32, known: &mut Vec<u32>) -> u32 {
    match known.binary_search_by(|&other| racks.of(other).cmp(racks.of(partition))) {
        Ok(place) => known[place],
        Err(place) => {
            known.insert(place, partition);
            partition
        }
    }
}
