//! The authorizer against a short model of its rules, and the model with planted flaws.

mod cases;
mod filters;
mod model;

use std::sync::Arc;

use proptest::{prelude::*, strategy::ValueTree, test_runner::TestRunner};
use rota_security::acl::{Authorizer, Subject};

use self::{
    cases::{Case, Request, a_case},
    model::{FLAWS, Flaw},
};

fn authorizer(case: &Case) -> Authorizer {
    Authorizer {
        super_users: case.super_users.clone(),
        allow_everyone_if_no_acl_found: case.allow_everyone_if_no_acl_found,
        table: Arc::new(case.bindings.iter().cloned().collect()),
    }
}

/// Both decisions of the authorizer.
fn decided(authorizer: &Authorizer, request: &Request) -> (bool, bool) {
    let subject = Subject { principal: &request.principal, host: &request.host };
    (
        authorizer.allows(subject, request.operation, request.resource, &request.name),
        authorizer.allows_somewhere(subject, request.operation, request.resource),
    )
}

/// Both decisions of the model.
fn expected(case: &Case, request: &Request, flaw: Flaw) -> (bool, bool) {
    (model::allows(case, request, flaw), model::allows_somewhere(case, request, flaw))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_authorizer_decides_as_the_model(case in a_case(20)) {
        let authorizer = authorizer(&case);
        for request in &case.requests {
            prop_assert_eq!(decided(&authorizer, request), expected(&case, request, Flaw::None), "{:?}", request);
        }
    }
}

#[test]
fn every_planted_flaw_is_noticed() {
    let mut runner = TestRunner::deterministic();
    let cases: Vec<Case> = (0..2_000).map(|_| a_case(20).new_tree(&mut runner).unwrap().current()).collect();
    let differs = |flaw: Flaw| {
        cases.iter().any(|case| {
            let authorizer = authorizer(case);
            case.requests.iter().any(|request| decided(&authorizer, request) != expected(case, request, flaw))
        })
    };
    assert!(!differs(Flaw::None));
    let unnoticed: Vec<Flaw> = FLAWS.into_iter().filter(|flaw| !differs(*flaw)).collect();
    assert_eq!(unnoticed, []);
}
