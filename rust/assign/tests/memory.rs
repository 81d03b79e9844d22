//! What an assignor allocates beyond its input and output, counted: at most 16 bytes a partition, and with unequal
//! subscriptions 36 bytes for each subscription, which is what the network is made of.

use rota_assign::{
    NOBODY, Problem, Racks, Scratch,
    names::{Assignor, plan},
};

const FIXED_BYTES: u64 = 100_000;
const PARTITION_BYTES: u64 = 16;
const SUBSCRIPTION_BYTES: u64 = 36;

/// The arrays of a group: topics of 1,000 partitions, members that subscribe to every `nth` topic in their own phase.
struct Arrays {
    topic_starts: Vec<u32>,
    member_starts: Vec<u32>,
    subscriptions: Vec<u32>,
    previous: Vec<u32>,
}

impl Arrays {
    fn new(topics: u32, members: u32, nth: u32) -> Arrays {
        let topic_starts: Vec<u32> = (0..=topics).map(|topic| topic * 1_000).collect();
        let (mut member_starts, mut subscriptions) = (vec![0], Vec::new());
        for member in 0..members {
            subscriptions.extend((0..topics).filter(|topic| (topic + member) % nth == 0));
            member_starts.push(subscriptions.len() as u32);
        }
        let owner = |partition: u32| if partition.is_multiple_of(7) { NOBODY } else { (partition * 31 + 7) % members };
        let previous = (0..topics * 1_000).map(owner).collect();
        Arrays { topic_starts, member_starts, subscriptions, previous }
    }

    /// The most bytes held at once while one call runs, its output taken off; scratch is new, as in a first call.
    fn bytes(&self, assignor: Assignor, racks: Option<Racks<'_>>) -> u64 {
        let problem = Problem::new(&self.topic_starts, &self.member_starts, &self.subscriptions, racks).unwrap();
        let mut owners = vec![NOBODY; self.previous.len()];
        let counted = allocation_counter::measure(|| {
            plan(assignor, &problem, &self.previous, &mut Scratch::default(), &mut owners);
        });
        counted.bytes_max
    }
}

#[test]
fn equal_subscriptions_need_no_memory_for_partitions() {
    let arrays = Arrays::new(200, 100, 1);
    for assignor in Assignor::ALL {
        let bytes = arrays.bytes(assignor, None);
        assert!(bytes < FIXED_BYTES, "{} holds {bytes} bytes for 200,000 partitions", assignor.name());
    }
}

#[test]
fn unequal_subscriptions_need_memory_for_subscriptions_only() {
    let arrays = Arrays::new(200, 500, 3);
    let limit = FIXED_BYTES + SUBSCRIPTION_BYTES * arrays.subscriptions.len() as u64;
    for assignor in Assignor::ALL {
        let bytes = arrays.bytes(assignor, None);
        assert!(bytes < limit, "{} holds {bytes} bytes, at most {limit}", assignor.name());
    }
}

#[test]
fn racks_need_sixteen_bytes_a_partition() {
    let arrays = Arrays::new(200, 100, 2);
    let partitions = arrays.previous.len() as u64;
    let rack_starts: Vec<u32> = (0..=partitions as u32).map(|partition| partition * 2).collect();
    let replicas: Vec<u32> =
        (0..partitions as u32).flat_map(|one| [[0, 1], [1, 2], [0, 2]][one as usize % 3]).collect();
    let members: Vec<u32> = (0..100).map(|member| member % 3).collect();
    let limit = FIXED_BYTES + PARTITION_BYTES * partitions + 3 * SUBSCRIPTION_BYTES * arrays.subscriptions.len() as u64;
    for assignor in Assignor::ALL {
        let racks = Racks { members: &members, starts: &rack_starts, replicas: &replicas };
        let bytes = arrays.bytes(assignor, Some(racks));
        assert!(bytes < limit, "{} holds {bytes} bytes, at most {limit}", assignor.name());
    }
}

#[test]
fn a_second_call_of_a_group_with_equal_subscriptions_allocates_nothing() {
    let arrays = Arrays::new(50, 100, 1);
    let problem = Problem::new(&arrays.topic_starts, &arrays.member_starts, &arrays.subscriptions, None).unwrap();
    let (mut scratch, mut owners) = (Scratch::default(), Vec::new());
    for assignor in Assignor::ALL {
        plan(assignor, &problem, &arrays.previous, &mut scratch, &mut owners);
        let counted = allocation_counter::measure(|| {
            plan(assignor, &problem, &arrays.previous, &mut scratch, &mut owners);
        });
        assert_eq!(counted.count_total, 0, "{}", assignor.name());
    }
}
