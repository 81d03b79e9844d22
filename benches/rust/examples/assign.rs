//! One group, prepared once, assigned once for each line on stdin: `assign ASSIGNOR TOPICS PARTITIONS MEMBERS PERCENT
//! LEAVES`, as the Java program of `tests/assign/java` does it. Answers with nanoseconds, from the members' claims to the
//! plan; the line `figures` is answered with min load, max load, sum of squared loads and partitions kept.

use std::{hint::black_box, io::BufRead, time::Instant};

use rota_assign::{
    Claims, NOBODY, Problem, Scratch,
    certify::{Rule, certify},
    names::{Assignor, plan},
};

/// The same coin in both languages.
fn subscribes(member: u64, topic: u64, topics: u64, percent: u64) -> bool {
    if percent == 100 {
        return true;
    }
    let value = (member * topics + topic).wrapping_add(0x9e37_79b9_7f4a_7c15);
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (value ^ (value >> 31)) % 100 < percent
}

/// The lists of each member, compressed.
fn compressed(lists: &[Vec<u32>]) -> (Vec<u32>, Vec<u32>) {
    let mut starts = vec![0];
    for list in lists {
        starts.push(starts[starts.len() - 1] + list.len() as u32);
    }
    (starts, lists.concat())
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let assignor = Assignor::named(&arguments[0]).expect("an assignor");
    let number = |at: usize| arguments[at].parse::<u64>().expect("a number");
    let (topics, partitions, members, percent) = (number(1), number(2), number(3), number(4));
    let topic_starts: Vec<u32> = (0..=topics).map(|topic| (topic * partitions) as u32).collect();
    let mut lists: Vec<Vec<u32>> = (0..members)
        .map(|member| {
            let subscribed = (0..topics).filter(|&topic| subscribes(member, topic, topics, percent));
            subscribed.map(|topic| topic as u32).collect()
        })
        .collect();
    let mut claimed = vec![Vec::new(); members as usize];
    let mut scratch = Scratch::default();
    let mut owners = Vec::new();
    if number(5) == 1 {
        let (starts, subscriptions) = compressed(&lists);
        let problem = Problem::new(&topic_starts, &starts, &subscriptions, None).expect("a problem");
        plan(assignor, &problem, &vec![NOBODY; problem.partitions() as usize], &mut scratch, &mut owners);
        for (partition, &owner) in (0_u32..).zip(&owners).filter(|&(_, &owner)| owner != NOBODY) {
            claimed[owner as usize].push(partition);
        }
        lists.pop();
        claimed.pop();
    }
    let (member_starts, subscriptions) = compressed(&lists);
    let (claim_starts, claims) = compressed(&claimed);
    let generations = vec![1; lists.len()];
    let mut previous = Vec::new();
    for line in std::io::stdin().lock().lines() {
        let began = Instant::now();
        let problem = Problem::new(&topic_starts, &member_starts, &subscriptions, None).expect("a problem");
        let claims = Claims { starts: &claim_starts, partitions: &claims, generations: &generations };
        claims.resolve(&problem, &mut previous).expect("claims of the group");
        plan(assignor, &problem, &previous, &mut scratch, &mut owners);
        let took = began.elapsed().as_nanos();
        black_box(&owners);
        if line.expect("a line") == "figures" {
            let certificate = certify(&problem, &previous, &owners, Rule::Eager).expect("a plan");
            let squares: u64 = certificate.loads.iter().map(|&load| u64::from(load) * u64::from(load)).sum();
            println!("{} {} {squares} {}", certificate.min_load, certificate.max_load, certificate.kept);
        } else {
            println!("{took}");
        }
    }
}
