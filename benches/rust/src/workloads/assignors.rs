//! Assignors on flat arrays: ten topics of a thousand partitions, a hundred members.

use rota_assign::{
    NOBODY, Problem, Scratch,
    names::{Assignor, plan},
};

use crate::measured;

const TOPICS: u32 = 10;
const PARTITIONS: u32 = 1_000;
const MEMBERS: u32 = 100;

/// Everybody subscribes to everything; partitions have the owners of `previous`.
fn assigned(assignor: &str, members: u32, previous: &[u32], counted: bool) -> Vec<u32> {
    let assignor = Assignor::named(assignor).expect("an assignor");
    let topic_starts: Vec<u32> = (0..=TOPICS).map(|topic| topic * PARTITIONS).collect();
    let member_starts: Vec<u32> = (0..=members).map(|member| member * TOPICS).collect();
    let subscriptions: Vec<u32> = (0..members).flat_map(|_| 0..TOPICS).collect();
    let problem = Problem::new(&topic_starts, &member_starts, &subscriptions, None).expect("a problem");
    let (mut scratch, mut owners) = (Scratch::default(), Vec::new());
    let mut work = || plan(assignor, &problem, previous, &mut scratch, &mut owners);
    if counted {
        measured(work);
    } else {
        work();
    }
    assert!(owners.iter().all(|owner| *owner < members), "every partition has an owner");
    owners
}

fn cold(assignor: &str) -> u64 {
    let nobody = vec![NOBODY; (TOPICS * PARTITIONS) as usize];
    assigned(assignor, MEMBERS, &nobody, true).len() as u64
}

/// As servers assign ranges.
pub fn range() -> u64 {
    cold("server_range")
}

/// As servers assign evenly.
pub fn uniform() -> u64 {
    cold("uniform")
}

/// The last member has left: what was its goes to the others, and the rest stays.
pub fn sticky() -> u64 {
    let nobody = vec![NOBODY; (TOPICS * PARTITIONS) as usize];
    let mut previous = assigned("sticky", MEMBERS, &nobody, false);
    previous.iter_mut().filter(|owner| **owner == MEMBERS - 1).for_each(|owner| *owner = NOBODY);
    assigned("sticky", MEMBERS - 1, &previous, true).len() as u64
}
