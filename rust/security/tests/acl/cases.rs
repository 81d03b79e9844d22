//! Random ACLs and requests over few names, so that they meet.

use std::collections::BTreeSet;

use proptest::{collection::vec, prelude::*, sample::select};
use rota_security::acl::{Binding, Operation, Pattern, PatternType, Permission, ResourceType};

/// A request for a decision.
#[derive(Clone, Debug)]
pub struct Request {
    pub principal: String,
    pub host: String,
    pub operation: Operation,
    pub resource: ResourceType,
    pub name: String,
}

/// ACLs, settings and requests.
#[derive(Clone, Debug)]
pub struct Case {
    pub super_users: BTreeSet<String>,
    pub allow_everyone_if_no_acl_found: bool,
    pub bindings: Vec<Binding>,
    pub requests: Vec<Request>,
}

const HOSTS: [&str; 3] = ["10.0.0.1", "10.0.0.10", "10.0.0.2"];
const PRINCIPALS: [&str; 4] = ["User:ana", "User:bob", "Group:ana", "User:admin"];
const RESOURCES: [ResourceType; 2] = [ResourceType::Topic, ResourceType::Group];
const NAMES: [&str; 10] = ["*", "*a", "a", "aa", "ab", "abc", "b", "hard", "größe", "grö"];

/// One of `common`, or half the time one of all.
fn often<T: Copy + std::fmt::Debug + 'static>(common: &'static [T], all: &'static [T]) -> impl Strategy<Value = T> {
    prop_oneof![select(common), select(all)]
}

fn an_operation() -> impl Strategy<Value = Operation> {
    const COMMON: [Operation; 5] =
        [Operation::Read, Operation::Describe, Operation::All, Operation::AlterConfigs, Operation::DescribeConfigs];
    often(&COMMON, Operation::ALL)
}

fn a_binding() -> impl Strategy<Value = Binding> {
    let who = (often(&["User:*"], &PRINCIPALS), often(&["*"], &HOSTS));
    let what = (an_operation(), select(Permission::ALL));
    let pattern = (select(&RESOURCES[..]), select(&NAMES[..]), select(PatternType::ALL));
    (who, what, pattern).prop_map(|((principal, host), (operation, permission), (resource, name, kind))| Binding {
        pattern: Pattern { resource, name: name.to_owned(), kind },
        principal: principal.to_owned(),
        host: host.to_owned(),
        operation,
        permission,
    })
}

fn a_request() -> impl Strategy<Value = Request> {
    // No request is for all operations at once.
    let operation = an_operation().prop_filter("one operation", |operation| *operation != Operation::All);
    (select(&PRINCIPALS[..]), select(&HOSTS[..]), operation, select(&RESOURCES[..]), select(&NAMES[..])).prop_map(
        |(principal, host, operation, resource, name)| Request {
            principal: principal.to_owned(),
            host: host.to_owned(),
            operation,
            resource,
            name: name.to_owned(),
        },
    )
}

/// A case with this number of requests.
pub fn a_case(requests: usize) -> impl Strategy<Value = Case> {
    let requests = vec(a_request(), requests);
    (any::<bool>(), any::<bool>(), vec(a_binding(), 0..10), requests).prop_map(
        |(has_super_user, allow_everyone_if_no_acl_found, bindings, requests)| Case {
            super_users: has_super_user.then(|| "User:admin".to_owned()).into_iter().collect(),
            allow_everyone_if_no_acl_found,
            bindings,
            requests,
        },
    )
}
