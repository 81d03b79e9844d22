//! Who a request is from, by member id and instance id (docs/consumer-protocol.md §18.2), and what only some say.

use rota_core::{
    Entropy, Request, Ticket,
    consumer_group::config::ConsumerConfig,
    request::{LeaveGroup, LeaveIdentity, SyncGroup},
};

use crate::{
    classic::{FOO, STATIC_PAIR, leave, mixed, rejoin, scene, with_join},
    scene::{Beat, Scene, beat, join, settings},
};

/// A consumer group that m1 has made of the classic group of A and B, which are static.
fn upgraded() -> Scene {
    let mut g = scene(settings(0), STATIC_PAIR);
    assert_eq!(g.send(&join("m1", FOO).of("i1")), "3 []");
    g
}

#[test]
fn a_classic_member_joins_by_its_instance_id_only_with_its_own_member_id() {
    let mut g = upgraded();
    assert_eq!(rejoin(&mut g, "A", Some("none"), "012"), "25", "no such instance");
    assert_eq!(rejoin(&mut g, "B", Some("ia"), "012"), "82", "the instance is A's");
    assert_eq!(rejoin(&mut g, "A", Some("ia"), "012"), "2 leader= of 0");
    assert!(g.coordinator.consumer_group("g").unwrap().member("A").is_some(), "it keeps its id");
    assert_eq!(rejoin(&mut g, "A", None, "012"), "2 leader= of 0", "a dynamic join of a member that is known");
}

#[test]
fn a_member_leaves_by_its_instance_id_only_with_its_own_member_id() {
    let mut g = upgraded();
    assert!(g.send(&beat("other", -1).of("i1")).starts_with("82 "));
    assert!(g.send(&beat("m1", -1).of("none")).starts_with("25 "));
    assert_eq!(g.send(&beat("m1", -1).of("i1")), "-1 -");
    assert_eq!(leave(&mut g, &[("B", Some("ia"))]), "0: 82");
    assert_eq!(leave(&mut g, &[("A", Some("ia"))]), "0: 0");
    assert_eq!(leave(&mut g, &[("", Some("ib"))]), "0: 0");
}

#[test]
fn a_leave_of_one_member_has_its_error_as_that_of_the_request() {
    let mut g = upgraded();
    let told = [2, 3].map(|version| leaves(&mut g, version, "none"));
    assert_eq!(told, ["25: 25", "0: 25"]);
}

fn leaves(g: &mut Scene, version: i16, member_id: &str) -> String {
    let members: &[LeaveIdentity<'_>] = &[LeaveIdentity { member_id, instance_id: None, reason: None }];
    g.ask(Request::LeaveGroup(LeaveGroup { version, group_id: Some("g"), members }))
}

#[test]
fn members_that_leave_while_an_append_is_in_flight_are_all_answered() {
    let mut g = upgraded();
    g.begin(&join("m2", FOO));
    let members: &[LeaveIdentity<'_>] = &[
        LeaveIdentity { member_id: "A", instance_id: Some("ia"), reason: None },
        LeaveIdentity { member_id: "none", instance_id: None, reason: None },
    ];
    let ticket = g.submit(Request::LeaveGroup(LeaveGroup { version: 5, group_id: Some("g"), members }));
    assert!(!g.effects.answers.contains_key(&ticket), "it waits");
    g.settle();
    assert_eq!(g.effects.answers[&ticket], "0: 0 25");
}

#[test]
fn a_full_group_takes_those_that_it_knows() {
    let mut g = scene(ConsumerConfig { max_size: 3, ..settings(0) }, STATIC_PAIR);
    assert_eq!(g.send(&join("m1", FOO)), "3 []");
    assert_eq!(rejoin(&mut g, "", Some("new"), ""), "81");
    assert_eq!(rejoin(&mut g, "A", None, "012"), "2 leader= of 0");
    assert_eq!(rejoin(&mut g, "B", Some("ib"), "345"), "2 leader= of 0");
    assert!(rejoin(&mut g, "", Some("ib"), "345").ends_with(" leader= of 0"), "it takes its own place");
}

#[test]
fn a_sync_names_the_protocol_of_its_member() {
    for (protocol_type, protocol_name, answer) in [
        (Some("consumer"), Some("range"), "[foo:012]"),
        (None, None, "[foo:012]"),
        (Some("connect"), Some("range"), "23"),
        (Some("consumer"), Some("roundrobin"), "23"),
    ] {
        let mut g = mixed(settings(0));
        let sync = SyncGroup {
            // Version 5 has to name both.
            version: if protocol_type.is_none() { 4 } else { 5 },
            group_id: Some("g"),
            generation: 3,
            member_id: "A",
            instance_id: None,
            protocol_type,
            protocol_name,
            assignments: &[],
        };
        assert_eq!(g.ask(Request::SyncGroup(sync)), answer, "{protocol_type:?} {protocol_name:?}");
    }
}

#[test]
fn a_heartbeat_that_says_everything_is_answered_with_the_assignment() {
    let mut g = Scene::new(settings(0));
    assert_eq!(g.send(&join("m1", FOO)), "2 [foo:012345]");
    let all = Beat { rebalance_timeout_ms: 60_000, ..beat("m1", 2).owns("foo:012345") };
    assert_eq!(g.send(&all.clone().names(FOO)), "2 [foo:012345]");
    assert_eq!(g.send(&all), "2 -", "nothing about topics");
    assert_eq!(g.send(&beat("m1", 2).names(FOO).owns("foo:012345")), "2 -", "nothing about its timeout");
}

#[test]
fn the_assignor_that_most_members_name_plans() {
    let both: &[&str] = &["bar", "one"];
    let shared = |assignors: [Option<&str>; 2]| {
        let mut g = Scene::new(settings(0));
        for (member_id, assignor) in ["m1", "m2"].into_iter().zip(assignors) {
            g.send(&Beat { assignor, ..join(member_id, both) });
        }
        let group = g.coordinator.consumer_group("g").unwrap();
        let shares = group.members().map(|(_, member, _)| member.target.iter().flatten().count());
        shares.collect::<Vec<usize>>()
    };
    assert_eq!(shared([None, None]), [2, 2], "uniform, the first of the list");
    assert_eq!(shared([Some("range"), Some("range")]), [3, 1]);
    assert_eq!(shared([Some("range"), None]), [3, 1], "of those that name one");
    assert_eq!(shared([Some("range"), Some("uniform")]), [2, 2], "of two with as many, the first of the list");
}

/// 22 digits of 6 bits; the last one has 2 of the id (docs/consumer-protocol.md §18.2).
#[test]
fn a_new_member_id_has_all_random_bits() {
    let mut g = Scene::new(settings(0));
    g.send(&join("m1", FOO));
    let (ticket, now) = (Ticket(99), g.now());
    with_join("", None, "", |request| {
        g.coordinator.submit(now, ticket, Entropy(u128::MAX), request, &mut g.effects);
    });
    assert_eq!(g.effects.answers[&ticket], format!("79 {}w", "_".repeat(21)));
}
