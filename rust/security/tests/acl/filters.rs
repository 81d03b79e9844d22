//! Filters of `DescribeAcls` and `DeleteAcls`.

use rota_security::acl::{AclTable, Binding, Filter, Operation, PatternFilter, PatternType, Permission, ResourceType};

fn table() -> AclTable {
    let lines = [
        "ALLOW User:ana * READ TOPIC LITERAL orders",
        "DENY User:* 10.0.0.1 WRITE TOPIC PREFIXED ord",
        "ALLOW User:bob * ALL TOPIC LITERAL *",
        "ALLOW User:bob * READ GROUP LITERAL orders",
        "ALLOW User:bob * READ TOPIC PREFIXED *",
    ];
    lines.iter().map(|line| line.parse::<Binding>().unwrap()).collect()
}

/// The lines that a filter names, by their place in `table`.
fn named(filter: &Filter) -> Vec<String> {
    table().iter().filter(|binding| filter.names(binding)).map(Binding::line).collect()
}

fn topic(name: &str, kind: PatternFilter) -> Filter {
    Filter { resource: Some(ResourceType::Topic), name: Some(name.to_owned()), kind, ..Filter::ALL }
}

#[test]
fn a_filter_of_a_name_finds_that_pattern_either_one_or_all_that_apply() {
    assert_eq!(named(&Filter::ALL).len(), 5);
    let literal = PatternFilter::Of(PatternType::Literal);
    assert_eq!(named(&topic("orders", literal)), ["ALLOW User:ana * READ TOPIC LITERAL orders"]);
    assert_eq!(named(&topic("ord", literal)), [""; 0]);
    assert_eq!(named(&topic("ord", PatternFilter::Any)), ["DENY User:* 10.0.0.1 WRITE TOPIC PREFIXED ord"]);
    assert_eq!(named(&topic("*", PatternFilter::Any)).len(), 2);
    assert_eq!(
        named(&topic("orders", PatternFilter::Match)),
        [
            "ALLOW User:bob * ALL TOPIC LITERAL *",
            "ALLOW User:ana * READ TOPIC LITERAL orders",
            "DENY User:* 10.0.0.1 WRITE TOPIC PREFIXED ord",
        ]
    );
    assert_eq!(named(&topic("or", PatternFilter::Match)), ["ALLOW User:bob * ALL TOPIC LITERAL *"]);
}

#[test]
fn a_filter_of_entries_compares_texts() {
    let count = |filter: Filter| named(&filter).len();
    assert_eq!(count(Filter { principal: Some("User:bob".to_owned()), ..Filter::ALL }), 3);
    assert_eq!(count(Filter { principal: Some("nonsense".to_owned()), ..Filter::ALL }), 0);
    assert_eq!(count(Filter { host: Some("*".to_owned()), ..Filter::ALL }), 4);
    assert_eq!(count(Filter { operation: Some(Operation::Read), ..Filter::ALL }), 3);
    assert_eq!(count(Filter { permission: Some(Permission::Deny), ..Filter::ALL }), 1);
    assert_eq!(count(Filter { kind: PatternFilter::Of(PatternType::Prefixed), ..Filter::ALL }), 2);
    assert_eq!(count(Filter { resource: Some(ResourceType::Group), ..Filter::ALL }), 1);
    assert_eq!(count(Filter { resource: Some(ResourceType::Cluster), ..Filter::ALL }), 0);
}

#[test]
fn deleting_what_filters_name_leaves_the_others() {
    let left = table().without(&[topic("orders", PatternFilter::Match), topic("nothing", PatternFilter::Any)]);
    let lines: Vec<String> = left.iter().map(Binding::line).collect();
    assert_eq!(lines, ["ALLOW User:bob * READ TOPIC PREFIXED *", "ALLOW User:bob * READ GROUP LITERAL orders"]);
    assert_eq!(left.count(), 2);
    let mut again = left.clone();
    assert!(!again.add(lines[0].parse().unwrap()), "an ACL that exists");
    assert_eq!(again, left);
}
