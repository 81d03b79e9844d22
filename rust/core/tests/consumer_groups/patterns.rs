//! Topic patterns (docs/consumer-protocol.md §15).

use std::collections::BTreeSet;

use rota_core::{
    ErrorCode,
    consumer_group::patterns::Pattern,
    records::{ConsumerRecord, Record},
};

use crate::scene::{Beat, Scene, beat, join, join_by, settings};

/// Longer than the time between two resolutions.
const LATER_MS: u64 = 10_001;

fn resolved(pattern: &str) -> Scene {
    let mut g = Scene::new(settings(0));
    assert_eq!(g.send(&join_by("m1", pattern)), "1 []");
    g.tick();
    g.records();
    g
}

/// What RE2/J 1.8 says of each pattern: the names of the first line that it matches as a whole, or why it refuses it.
#[test]
fn patterns_mean_what_they_mean_to_re2j() {
    let mut lines = include_str!("re2j.tsv").lines();
    let names: Vec<&str> = lines.next().unwrap().split(' ').collect();
    let (mut count, mut too_large) = (0, Vec::new());
    for line in lines {
        let [pattern, verdict, expected] = line.split('\t').collect::<Vec<_>>()[..] else { panic!("{line}") };
        count += 1;
        let found = match Pattern::new(pattern) {
            Err(reason) if reason.contains("bytes of memory") => {
                too_large.push(pattern);
                continue;
            }
            Ok(pattern) => {
                ("=", names.iter().copied().filter(|name| pattern.matches(name)).collect::<Vec<_>>().join(" "))
            }
            Err(reason) => ("!", reason),
        };
        assert_eq!(found, (verdict, expected.to_owned()), "{pattern}");
    }
    assert_eq!(count, 307);
    let expected = ["(a{1000}){2}", "(a*){1000}"];
    assert_eq!(too_large.iter().collect::<BTreeSet<_>>(), expected.iter().collect());
}

#[test]
fn a_hostile_pattern_is_refused_before_it_fills_the_memory() {
    let nested = "(((a{1000}){1000}){1000}){1000}".to_owned();
    let deep = format!("{}a{}", "(".repeat(10_000), ")".repeat(10_000));
    for (pattern, reason) in [
        (
            "(a{100}){100}".to_owned(),
            "the expression needs more than 65536 bytes of memory or nests more than 200 levels deep",
        ),
        (nested, "the expression needs more than 65536 bytes of memory or nests more than 200 levels deep"),
        (deep, "the expression needs more than 65536 bytes of memory or nests more than 200 levels deep"),
        ("a".repeat(32_769), "the expression is longer than 32768 bytes"),
    ] {
        assert_eq!(Pattern::new(&pattern).unwrap_err(), reason);
    }
    assert!(Pattern::new(&"(a|b*)+".repeat(40)).unwrap().matches(&"ab".repeat(100)));
}

#[test]
fn a_pattern_that_takes_long_to_compare_is_refused_and_ordinary_ones_are_not() {
    for slow in ["(?:(?:.?){1000}){2}x", "(?:a?){1000}", ".{1,1000}"] {
        let reason = Pattern::new(slow).unwrap_err();
        assert!(reason.starts_with("the expression needs more than 65536 bytes"), "{slow}: {reason}");
    }
    let names: Vec<String> = (0..80).map(|at| format!("orders-{at:03}-payments")).collect();
    for ordinary in ["(orders|payments)-[a-z0-9._-]{1,40}", ".{1,100}", r"(?i)[\w.-]{1,100}", &names.join("|")] {
        assert!(Pattern::new(ordinary).unwrap().matches("orders-007-payments"), "{ordinary}");
    }
}

#[test]
fn a_full_request_that_changes_nothing_is_answered_with_the_assignment() {
    let full = |pattern| Beat { rebalance_timeout_ms: 60_000, ..beat("m1", 2).pattern(pattern).owns("") };
    let mut g = resolved("fo+");
    assert_eq!(g.send(&beat("m1", 1)), "2 [foo:012345]");
    assert_eq!(g.send(&beat("m1", 2)), "2 -");
    assert_eq!(g.send(&full("fo+")), "2 [foo:012345]");
    let mut g = Scene::new(settings(0));
    g.send(&join("m1", &["foo"]));
    assert_eq!(g.send(&beat("m1", 2)), "2 -");
    assert_eq!(g.send(&full("")), "2 [foo:012345]");
}

#[test]
fn a_pattern_is_resolved_behind_the_join() {
    let mut g = Scene::new(settings(0));
    assert_eq!(g.send(&join_by("m1", "o.e|f.*")), "1 []");
    assert_eq!(g.records(), "5(m1) 8(m1 e1 prev 0 STABLE 0)");
    g.tick();
    assert_eq!(g.records(), "16(o.e|f.* foo,one) 3(2)");
    assert_eq!(g.send(&beat("m1", 1)), "2 [foo:012345 one:0]");
    assert_eq!(g.send(&join_by("m2", "o.e|f.*")), "3 []", "the second member has a pattern that is resolved");
    assert_eq!(g.send(&beat("m1", 2).pattern("o.e|f.*").owns("foo:012345 one:0")), "2 [foo:0123]");
    assert_eq!(g.send(&beat("m1", 2).owns("foo:0123")), "3 -");
    assert_eq!(g.send(&beat("m2", 3)), "3 [foo:45 one:0]");
    g.coordinator.check_invariants().unwrap();
}

#[test]
fn names_and_pattern_are_a_union() {
    let mut g = Scene::new(settings(0));
    let both = Beat { names: Some(&["bar", "one"]), ..join_by("m1", "o.*") };
    assert_eq!(g.send(&both), "2 [bar:012 one:0]");
    g.tick();
    g.records();
    assert_eq!(g.send(&beat("m1", 2).names(&["bar"])), "4 -", "the pattern still covers one");
    assert_eq!(g.send(&beat("m1", 4).pattern("")), "4 [bar:012]");
    assert_eq!(
        g.records(),
        "5(m1) 3(4) 6(4) 8(m1 e4 prev 2 STABLE bar:012@2,one:0@2) | \
         5(m1) 16†(o.*) 3(5) 7(m1 bar:012) 6(5) 8(m1 e4 prev 4 UNREVOKED bar:012@2 V one:0@2)"
    );
}

#[test]
fn a_pattern_without_matches_raises_no_epoch() {
    let mut g = Scene::new(settings(0));
    g.send(&join_by("m1", "nothing"));
    g.records();
    g.tick();
    assert_eq!(g.records(), "16(nothing )");
    assert_eq!(g.send(&beat("m1", 1)), "1 -");
    g.pass(LATER_MS);
    assert_eq!(g.send(&beat("m1", 1)), "1 -");
    g.tick();
    assert_eq!(g.records(), "", "no topic is new");
}

#[test]
fn a_pattern_is_checked_if_no_member_has_it_and_after_the_epoch() {
    let mut g = resolved("foo");
    let refused = "128 SubscribedTopicRegex `(` is not a valid regular expression: missing closing ).";
    assert_eq!(g.send(&join_by("m2", "(")), refused);
    assert!(g.send(&beat("m1", 7).pattern("(")).starts_with("110 "));
    assert_eq!(g.send(&beat("m1", 1).pattern("(")), refused);
    assert_eq!(g.records(), "");
    assert_eq!(g.send(&beat("m1", -1).pattern("(")), "-1 -", "a leave is not checked");
}

#[test]
fn the_last_member_takes_the_pattern_with_it() {
    let mut g = resolved("o.*");
    g.send(&join_by("m2", "o.*"));
    g.records();
    g.send(&beat("m2", -1));
    assert_eq!(g.records(), "8†(m2) 7†(m2) 5†(m2) 3(4)");
    g.send(&beat("m1", -1));
    assert_eq!(g.records(), "8†(m1) 7†(m1) 5†(m1) 16†(o.*) 3(5) 6(5, 0)");
}

#[test]
fn a_new_topic_is_found_by_the_first_heartbeat_after_ten_seconds() {
    let mut g = resolved("o.*");
    assert_eq!(g.send(&beat("m1", 1)), "2 [one:0]");
    g.records();
    g.change_topic("other", 9, 1);
    assert_eq!(g.send(&beat("m1", 2)), "2 -");
    g.tick();
    assert_eq!(g.records(), "", "too early");
    g.pass(LATER_MS);
    assert_eq!(g.send(&beat("m1", 2)), "2 -");
    g.tick();
    assert_eq!(g.records(), "16(o.* one,other) 3(3)");
    assert_eq!(g.send(&beat("m1", 2)), "3 [?:0 one:0]");
    g.change_topic("other", 9, 2);
    assert_eq!(g.send(&beat("m1", 3)), "4 [?:01 one:0]", "a topic that grows is seen at once");
    g.delete_topic("other");
    assert_eq!(g.send(&beat("m1", 4)), "4 [one:0]", "and one that is deleted");
}

#[test]
fn a_new_pattern_waits_for_ten_seconds_behind_the_last_resolution() {
    let mut g = resolved("foo");
    assert_eq!(g.send(&join_by("m2", "bar")), "2 []");
    g.tick();
    assert!(!g.records().contains("16("));
    g.pass(LATER_MS);
    assert_eq!(g.send(&beat("m1", 1)), "2 [foo:012345]");
    g.tick();
    assert_eq!(g.records(), "8(m1 e2 prev 1 STABLE foo:012345@2) | 16(bar bar) 16(foo foo) 3(3)");
    assert_eq!(g.send(&beat("m2", 2)), "3 [bar:012]");
}

#[test]
fn patterns_are_resolved_again_after_ten_minutes() {
    let mut g = resolved("o.*");
    g.send(&beat("m1", 1));
    for _ in 0..20 {
        g.pass(30_000);
        assert_eq!(g.send(&beat("m1", 2)), "2 -");
        g.tick();
    }
    g.records();
    g.pass(1);
    g.send(&beat("m1", 2));
    g.tick();
    assert_eq!(g.records(), "16(o.* one)", "nothing has changed");
}

#[test]
fn offsets_of_a_topic_of_a_pattern_cannot_be_deleted() {
    let g = resolved("o.*");
    let group = g.coordinator.consumer_group("g").unwrap();
    assert!(group.subscribes_to("one"));
    assert!(!group.subscribes_to("foo"));
}

#[test]
fn a_resolution_that_was_not_stored_is_done_again() {
    let mut g = Scene::new(settings(0));
    g.send(&join_by("m1", "o.*"));
    let now = g.now();
    g.coordinator.advance(now, &mut g.effects);
    g.fail(ErrorCode::NotEnoughReplicas);
    g.coordinator.check_invariants().unwrap();
    assert_eq!(g.state(), "Stable G1 T1");
    assert_eq!(g.send(&beat("m1", 1)), "1 -");
    g.tick();
    assert_eq!(g.send(&beat("m1", 1)), "2 [one:0]");
}

#[test]
fn a_resolution_waits_for_the_append_before_it() {
    let mut g = Scene::new(settings(0));
    let first = g.begin(&join_by("m1", "o.*"));
    let now = g.now();
    g.coordinator.advance(now, &mut g.effects);
    assert_eq!(g.effects.appends.len(), 1);
    g.settle();
    assert_eq!(g.effects.answers[&first], "1 []");
    assert_eq!(g.effects.appends.len(), 2);
    g.coordinator.check_invariants().unwrap();
}

#[test]
fn a_group_that_is_not_stored_leaves_no_resolution() {
    let mut g = Scene::new(settings(0));
    g.begin(&join_by("m1", "o.*"));
    g.fail(ErrorCode::NotLeaderOrFollower);
    assert_eq!(g.state(), "none");
    g.coordinator.check_invariants().unwrap();
    g.tick();
    assert_eq!(g.state(), "none");
}

#[test]
fn a_load_has_the_patterns_whatever_compaction_left_first() {
    let mut g = resolved("o.*");
    assert_eq!(g.send(&beat("m1", 1)), "2 [one:0]");
    let mut log = g.log();
    for turn in 0..log.len() {
        log.rotate_left(1);
        let keys: Vec<Vec<u8>> = log.iter().map(Record::key_bytes).collect();
        let is_last = |at: usize| !keys[at + 1..].contains(&keys[at]);
        let in_order = turn + 1 == log.len();
        let compacted: Vec<Record> =
            log.iter().enumerate().filter(|(at, _)| is_last(*at)).map(|(_, record)| record.clone()).collect();
        let mut loaded = Scene::from_log(settings(0), &compacted);
        loaded.coordinator.check_invariants().unwrap();
        let pattern = |record: &Record| matches!(record, Record::Consumer { about: ConsumerRecord::Pattern(..), .. });
        assert!(compacted.iter().any(pattern));
        assert!(loaded.coordinator.consumer_group("g").unwrap().subscribes_to("one"));
        if in_order {
            assert_eq!(loaded.state(), "Stable G2 T2");
            assert_eq!(loaded.send(&beat("m1", 2)), "2 -");
            loaded.pass(LATER_MS);
            loaded.records();
            assert_eq!(loaded.send(&beat("m1", 2)), "2 -");
            loaded.tick();
            assert_eq!(loaded.records(), "16(o.* one)", "the first heartbeat resolves again");
        }
    }
}

#[test]
fn a_snapshot_keeps_patterns_and_their_deadline() {
    let mut g = resolved("o.*");
    g.send(&join_by("m2", "o.*"));
    g.pass(LATER_MS);
    g.change_topic("other", 9, 1);
    g.send(&beat("m1", 1));
    g.coordinator = rota_core::Coordinator::restore(&g.coordinator.snapshot()).unwrap();
    g.records();
    g.tick();
    assert_eq!(g.records(), "16(o.* one,other) 3(4)");
}

#[test]
fn a_snapshot_of_consumer_groups_in_an_older_format_is_refused() {
    let mut snapshot = resolved("o.*").coordinator.snapshot();
    assert_eq!(snapshot[0], 7);
    for older in [4, 5, 6] {
        snapshot[0] = older;
        let refusal = rota_core::Coordinator::restore(&snapshot).unwrap_err().to_string();
        let start = format!("the snapshot has format {older}, and this release of rota knows format 8;");
        assert!(refusal.starts_with(&start), "{refusal}");
    }
    assert_eq!(Scene::new(settings(0)).coordinator.snapshot()[0], 4, "without consumer groups nothing has changed");
}

/// What the caller does before a resolution, with an authorizer.
fn limit(g: &mut Scene, topics: &[&str]) {
    let now = g.now();
    g.coordinator.limit_patterns("g", topics, now);
}

#[test]
fn patterns_match_only_topics_that_are_visible() {
    let mut g = Scene::new(settings(0));
    assert_eq!(g.send(&join_by("m1", ".*")), "1 []");
    limit(&mut g, &["bar", "nowhere"]);
    g.tick();
    assert_eq!(g.records(), "5(m1) 8(m1 e1 prev 0 STABLE 0) | 16(.* bar) 3(2)");
    assert_eq!(g.send(&beat("m1", 1)), "2 [bar:012]");
    g.records();

    // What is visible counts until something else is said, and a name that becomes visible is found by a resolution.
    limit(&mut g, &["bar", "one"]);
    g.pass(LATER_MS);
    g.change_topic("new", 9, 1);
    assert_eq!(g.send(&beat("m1", 2)), "2 -");
    g.tick();
    assert_eq!(g.records(), "16(.* bar,one) 3(3)");
    g.coordinator.check_invariants().unwrap();

    let restored = rota_core::Coordinator::restore(&g.coordinator.snapshot()).unwrap();
    assert_eq!(restored.snapshot(), g.coordinator.snapshot());
}

#[test]
fn topics_are_visible_to_all_unless_the_caller_limits_them() {
    let mut g = Scene::new(settings(0));
    limit(&mut g, &[]);
    assert_eq!(g.send(&join_by("m1", "o.*")), "1 []", "a group that is not there yet has no limit");
    g.tick();
    assert_eq!(g.records(), "5(m1) 8(m1 e1 prev 0 STABLE 0) | 16(o.* one) 3(2)");
}

#[test]
fn each_resolution_names_the_request_that_causes_it() {
    let mut g = Scene::new(settings(0));
    g.send(&join("m1", &["one"]));
    assert_eq!(g.resolving(), [] as [String; 0]);
    g.send(&join_by("m2", "o.*"));
    assert_eq!(g.resolving(), ["g by ticket 2"]);
    g.send(&beat("m1", 2));
    assert_eq!(g.resolving(), [] as [String; 0], "one is on its way");
}

/// The log may have it from Kafka, or from another version. A pattern is checked when no member has it yet.
#[test]
fn a_pattern_that_a_member_has_is_not_checked_again() {
    let mut g = Scene::new(settings(0));
    g.send(&join_by("m1", "o.*"));
    let mut log = g.log();
    for record in &mut log {
        if let Record::Consumer { about: ConsumerRecord::Member(_, Some(value)), .. } = record {
            value.topic_regex = Some("(".into());
        }
    }
    let mut g = Scene::from_log(settings(0), &log);
    assert_eq!(g.send(&beat("m1", 1).pattern("(")), "1 -");
    g.tick();
    assert_eq!(g.records(), "16(( )", "it matches nothing");
}

#[test]
fn a_topic_that_grows_is_no_reason_to_resolve_and_one_that_is_made_anew_is() {
    let mut g = resolved("o.*");
    assert_eq!(g.send(&beat("m1", 1)), "2 [one:0]");
    g.pass(LATER_MS);
    g.resolving();
    g.change_topic("one", 3, 2);
    assert_eq!(g.send(&beat("m1", 2)), "3 [one:01]");
    assert_eq!(g.resolving(), [] as [String; 0]);
    g.change_topic("one", 9, 2);
    assert!(g.send(&beat("m1", 3)).starts_with("3 "));
    assert_eq!(g.resolving().len(), 1);
}
