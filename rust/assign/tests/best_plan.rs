//! The balanced plans against every plan there is, on thousands of small groups; and the certifier against its
//! definitions.

use proptest::prelude::*;
use rota_assign::{
    CONTESTED, Claims, Fill, NOBODY, Problem, Racks, Scratch, Violation,
    balance::balance,
    certify::{Rule, certify, merge},
    withhold,
};

/// A group that owns its arrays.
#[derive(Clone, Debug)]
struct Group {
    partitions: Vec<u32>,
    topics_of: Vec<Vec<u32>>,
    member_racks: Vec<u32>,
    racks_of: Vec<Vec<u32>>,
    previous: Vec<u32>,
}

impl Group {
    fn with<T>(&self, look: impl FnOnce(&Problem<'_>) -> T) -> T {
        let starts = |lengths: &mut dyn Iterator<Item = usize>| {
            let mut starts = vec![0];
            lengths.for_each(|length| starts.push(starts[starts.len() - 1] + length as u32));
            starts
        };
        let topic_starts = starts(&mut self.partitions.iter().map(|&count| count as usize));
        let member_starts = starts(&mut self.topics_of.iter().map(Vec::len));
        let rack_starts = starts(&mut self.racks_of.iter().map(Vec::len));
        let replicas = self.racks_of.concat();
        let racks = (!self.member_racks.is_empty()).then_some(Racks {
            members: &self.member_racks,
            starts: &rack_starts,
            replicas: &replicas,
        });
        look(&Problem::new(&topic_starts, &member_starts, &self.topics_of.concat(), racks).unwrap())
    }

    fn total(&self) -> usize {
        self.partitions.iter().sum::<u32>() as usize
    }

    fn topic_of(&self, partition: usize) -> u32 {
        let mut end = 0;
        self.partitions
            .iter()
            .position(|&count| {
                end += count as usize;
                partition < end
            })
            .unwrap() as u32
    }

    fn subscribers(&self, partition: usize) -> Vec<u32> {
        let topic = self.topic_of(partition);
        (0..self.topics_of.len() as u32).filter(|&member| self.topics_of[member as usize].contains(&topic)).collect()
    }

    /// The question of the definition: some member's rack holds a replica, and not every partition is everywhere.
    fn racks_matter(&self) -> bool {
        let wanted: Vec<u32> = self.member_racks.iter().copied().filter(|&rack| rack != NOBODY).collect();
        let subscribed: Vec<usize> = (0..self.total()).filter(|&one| !self.subscribers(one).is_empty()).collect();
        let mut all: Vec<u32> =
            subscribed.iter().flat_map(|&one| self.racks_of.get(one).cloned().unwrap_or_default()).collect();
        all.sort_unstable();
        all.dedup();
        wanted.iter().any(|rack| all.contains(rack)) && subscribed.iter().any(|&one| self.racks_of[one] != all)
    }

    /// What plans are compared by: loads from the highest, partitions away from their racks, moves.
    fn worth(&self, owners: &[u32], racks_matter: bool) -> (Vec<usize>, usize, usize) {
        let mut loads: Vec<usize> = (0..self.topics_of.len() as u32)
            .map(|member| owners.iter().filter(|&&owner| owner == member).count())
            .collect();
        loads.sort_unstable_by(|one, other| other.cmp(one));
        let away = |&(partition, &owner): &(usize, &u32)| {
            owner != NOBODY && racks_matter && {
                let rack = self.member_racks[owner as usize];
                rack != NOBODY && !self.racks_of[partition].contains(&rack)
            }
        };
        let lost = |&(partition, &owner): &(usize, &u32)| owner != NOBODY && owner != self.previous[partition];
        (loads, owners.iter().enumerate().filter(away).count(), owners.iter().enumerate().filter(lost).count())
    }

    fn best(&self) -> (Vec<usize>, usize, usize) {
        let racks_matter = !self.member_racks.is_empty() && self.racks_matter();
        let choices: Vec<Vec<u32>> = (0..self.total()).map(|partition| self.subscribers(partition)).collect();
        let mut best = None;
        let mut owners = vec![NOBODY; self.total()];
        every(&choices, 0, &mut owners, &mut |owners| {
            let worth = self.worth(owners, racks_matter);
            if best.as_ref().is_none_or(|best| worth < *best) {
                best = Some(worth);
            }
        });
        best.unwrap()
    }
}

fn every(choices: &[Vec<u32>], at: usize, owners: &mut Vec<u32>, visit: &mut dyn FnMut(&[u32])) {
    if at == choices.len() {
        return visit(owners);
    }
    if choices[at].is_empty() {
        return every(choices, at + 1, owners, visit);
    }
    for &owner in &choices[at] {
        owners[at] = owner;
        every(choices, at + 1, owners, visit);
    }
}

fn group(racked: bool) -> impl Strategy<Value = Group> {
    let sizes = (1_usize..=4, prop::collection::vec(0_u32..=3, 1..=4));
    sizes.prop_filter("few enough plans", |(_, partitions)| partitions.iter().sum::<u32>() <= 6).prop_flat_map(
        move |(members, partitions)| {
            let total = partitions.iter().sum::<u32>() as usize;
            let topics = partitions.len() as u32;
            let topics_of = prop::collection::vec(
                prop::sample::subsequence((0..topics).collect::<Vec<_>>(), 0..=topics as usize),
                members,
            );
            let owner = prop_oneof![4 => 0..members as u32, 1 => Just(NOBODY), 1 => Just(CONTESTED)];
            let rack = prop_oneof![3 => 0_u32..3, 1 => Just(NOBODY)];
            let member_racks = prop::collection::vec(rack, if racked { members } else { 0 });
            let replicas = prop::sample::subsequence(vec![0_u32, 1, 2], 0..=2);
            let racks_of = prop::collection::vec(replicas, if racked { total } else { 0 });
            let previous = prop::collection::vec(owner, total);
            (topics_of, member_racks, racks_of, previous).prop_map(
                move |(topics_of, member_racks, racks_of, previous)| Group {
                    partitions: partitions.clone(),
                    topics_of,
                    member_racks,
                    racks_of,
                    previous,
                },
            )
        },
    )
}

fn planned(group: &Group, previous: &[u32], fill: Fill) -> Vec<u32> {
    let mut owners = Vec::new();
    group.with(|problem| balance(problem, previous, fill, &mut Scratch::default(), &mut owners));
    owners
}

fn check_best(group: &Group, fill: Fill) -> Result<(), TestCaseError> {
    let owners = planned(group, &group.previous, fill);
    let racks_matter = !group.member_racks.is_empty() && group.racks_matter();
    prop_assert_eq!(group.worth(&owners, racks_matter), group.best(), "{:?}", owners);
    let certificate = group.with(|problem| certify(problem, &group.previous, &owners, Rule::Eager));
    prop_assert!(certificate.unwrap().best_balance);
    prop_assert_eq!(planned(group, &owners, fill), owners, "a best plan is left alone");
    Ok(())
}

fn check_two_rounds(group: &Group) -> Result<(), TestCaseError> {
    let target = planned(group, &group.previous, Fill::Ring);
    let mut first = target.clone();
    withhold(&group.previous, &mut first);
    for (partition, (&owner, &had)) in first.iter().zip(&group.previous).enumerate() {
        prop_assert!(
            owner == NOBODY || had == NOBODY || owner == had,
            "partition {partition} changes hands in a round"
        );
    }
    let certificate = group.with(|problem| certify(problem, &group.previous, &first, Rule::Cooperative));
    prop_assert!(certificate.is_ok(), "{certificate:?}");
    let mut second = planned(group, &first, Fill::Ring);
    prop_assert_eq!(withhold(&first, &mut second), 0, "the second round revokes");
    let (settled, worth) = (group.worth(&second, false).0, group.worth(&target, false).0);
    prop_assert_eq!(settled, worth, "the second round is less even than the target");
    prop_assert_eq!(planned(group, &second, Fill::Ring), second, "a third round changes something");
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_plan_is_more_even_or_moves_less(group in group(false), runs in any::<bool>()) {
        check_best(&group, if runs { Fill::Runs } else { Fill::Ring })?;
    }

    #[test]
    fn no_plan_is_more_even_or_nearer_or_moves_less_where_racks_matter(group in group(true)) {
        check_best(&group, Fill::Ring)?;
    }

    #[test]
    fn a_cooperative_group_settles_in_two_rounds_and_nothing_changes_hands_in_one(
        plain in group(false),
        racked in group(true),
    ) {
        check_two_rounds(&plain)?;
        check_two_rounds(&racked)?;
    }

    #[test]
    fn the_certifier_says_what_the_definitions_say(
        group in group(true),
        picks in prop::collection::vec(any::<prop::sample::Index>(), 6),
        wild in prop::option::of((any::<prop::sample::Index>(), 0_u32..6)),
    ) {
        let mut owners: Vec<u32> = (0..group.total()).map(|partition| {
            let subscribers = group.subscribers(partition);
            if subscribers.is_empty() { NOBODY } else { subscribers[picks[partition].index(subscribers.len())] }
        }).collect();
        if let Some((place, owner)) = wild && !owners.is_empty() {
            let place = place.index(owners.len());
            owners[place] = if owner == 5 { NOBODY } else { owner };
        }
        for rule in [Rule::Eager, Rule::Cooperative] {
            let found = group.with(|problem| certify(problem, &group.previous, &owners, rule));
            prop_assert_eq!(found.as_ref().err().cloned(), violation(&group, &owners, rule));
            if let (Ok(certificate), Rule::Eager) = (found, rule) {
                prop_assert_eq!(certificate.best_balance, group.worth(&owners, false).0 == group.best().0);
                let (_, away, lost) = group.worth(&owners, true);
                let assigned = owners.iter().filter(|&&owner| owner != NOBODY).count();
                prop_assert_eq!(certificate.away as usize, away);
                prop_assert_eq!((certificate.moved + certificate.fresh) as usize, lost);
                prop_assert_eq!((certificate.kept + certificate.moved + certificate.fresh) as usize, assigned);
                let members: Vec<usize> = (0..group.topics_of.len()).filter(|&member| !group.topics_of[member].is_empty()).collect();
                let loads = &certificate.loads;
                let imbalance: u64 = members.iter().flat_map(|&one| members.iter().map(move |&other| (one, other)))
                    .filter(|(one, other)| one < other)
                    .map(|(one, other)| u64::from(loads[one].abs_diff(loads[other]))).sum();
                prop_assert_eq!(certificate.imbalance, imbalance);
                let step = (0..group.total()).filter(|&partition| owners[partition] != NOBODY).any(|partition| {
                    let load = loads[owners[partition] as usize];
                    group.subscribers(partition).iter().any(|&other| load > loads[other as usize] + 1)
                });
                prop_assert_eq!(certificate.locally_balanced, !step);
            }
        }
    }
}

/// The first thing that is wrong with a plan, partition by partition, by the definitions.
fn violation(group: &Group, owners: &[u32], rule: Rule) -> Option<Violation> {
    (0..group.total()).find_map(|at| {
        let (partition, owner, had) = (at as u32, owners[at], group.previous[at]);
        let subscribers = group.subscribers(at);
        let missing = owner == NOBODY && !subscribers.is_empty() && (rule == Rule::Eager || had == NOBODY);
        if owner == NOBODY {
            missing.then_some(Violation::Missing { partition })
        } else if owner as usize >= group.topics_of.len() {
            Some(Violation::NoMember { partition, member: owner })
        } else if !subscribers.contains(&owner) {
            Some(Violation::Unsubscribed { partition, member: owner })
        } else if rule == Rule::Cooperative && had != NOBODY && had != owner {
            Some(Violation::HandOver { partition, from: had, to: owner })
        } else {
            None
        }
    })
}

#[test]
fn unequal_subscriptions_reach_two_two_two() {
    // c1 {t1, t2} owns all six; c2 {t1}; c3 {t2}: single moves end at 2/3/1, a chain of two does not.
    let group = Group {
        partitions: vec![3, 3],
        topics_of: vec![vec![0, 1], vec![0], vec![1]],
        member_racks: vec![],
        racks_of: vec![],
        previous: vec![0; 6],
    };
    let owners = planned(&group, &group.previous, Fill::Ring);
    assert_eq!(group.worth(&owners, false), (vec![2, 2, 2], 0, 4));
    let by_single_moves = [1, 1, 1, 2, 0, 0];
    let certificate = group.with(|problem| certify(problem, &group.previous, &by_single_moves, Rule::Eager)).unwrap();
    assert!(certificate.locally_balanced && !certificate.best_balance);
}

#[test]
fn members_that_cannot_have_their_share_divide_what_they_can_have() {
    // Two may have two of the partitions, two others the other six: 1/1/3/3, though all of 2 was with one member.
    let group = Group {
        partitions: vec![2, 6],
        topics_of: vec![vec![0], vec![0], vec![1], vec![1]],
        member_racks: vec![],
        racks_of: vec![],
        previous: vec![0, 0, 2, 2, 2, 2, 2, 2],
    };
    let owners = planned(&group, &group.previous, Fill::Ring);
    assert_eq!(group.worth(&owners, false), (vec![3, 3, 1, 1], 0, 4));
}

#[test]
fn stale_claims_of_a_cooperative_group_are_told_by_their_generation() {
    // Generation 6 was synced by the leader only, before another member joined: B still claims what it had in 5.
    let group = Group {
        partitions: vec![4],
        topics_of: vec![vec![0]; 4],
        member_racks: vec![],
        racks_of: vec![],
        previous: vec![NOBODY; 4],
    };
    let owners = group.with(|problem| {
        let mut previous = Vec::new();
        let claims = Claims { starts: &[0, 1, 4, 4, 4], partitions: &[0, 0, 2, 3], generations: &[6, 5, -1, -1] };
        claims.resolve(problem, &mut previous).unwrap();
        assert_eq!(previous, [0, NOBODY, 1, 1], "A's claim of generation 6 wins over B's of 5");
        let mut owners = Vec::new();
        balance(problem, &previous, Fill::Ring, &mut Scratch::default(), &mut owners);
        withhold(&previous, &mut owners);
        certify(problem, &previous, &owners, Rule::Cooperative).unwrap();
        owners
    });
    assert_eq!(owners, [0, 2, 1, NOBODY], "what B gives up waits for a round");
}

#[test]
fn a_partition_that_is_not_there_or_given_twice_is_told_when_lists_are_merged() {
    let problem = Problem::new(&[0, 2], &[0, 1, 2], &[0, 0], None).unwrap();
    let merged = |starts: &[u32], partitions: &[u32]| merge(&problem, starts, partitions, &mut Vec::new());
    assert_eq!(merged(&[0, 1, 2], &[1, 0]), Ok(()));
    assert_eq!(merged(&[0, 1, 2], &[1, 2]), Err(Violation::NoPartition { partition: 2, member: 1 }));
    assert_eq!(merged(&[0, 1, 2], &[1, 1]), Err(Violation::Twice { partition: 1, first: 0, second: 1 }));
}
