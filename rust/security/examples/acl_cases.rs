//! Writes random ACLs and requests with the authorizer's decisions, one case a line, for Kafka's class to compare
//! (`make kafka-acls`). The argument is the number of decisions.

#[path = "../tests/acl/cases.rs"]
mod cases;

use std::{
    io::{BufWriter, Write},
    sync::Arc,
};

use proptest::{
    strategy::{Strategy, ValueTree},
    test_runner::TestRunner,
};
use rota_security::acl::{Authorizer, Subject};

/// Requests of a case.
const REQUESTS: usize = 20;

fn main() -> std::io::Result<()> {
    let wanted: usize = std::env::args().nth(1).and_then(|count| count.parse().ok()).unwrap_or(100_000);
    let mut runner = TestRunner::deterministic();
    let out = &mut BufWriter::new(std::io::stdout().lock());
    for _ in 0..wanted.div_ceil(REQUESTS) {
        let Ok(tree) = cases::a_case(REQUESTS).new_tree(&mut runner) else { continue };
        let case = tree.current();
        let lines: Vec<String> = case.bindings.iter().map(rota_security::acl::Binding::line).collect();
        let authorizer = Authorizer {
            super_users: case.super_users.clone(),
            allow_everyone_if_no_acl_found: case.allow_everyone_if_no_acl_found,
            table: Arc::new(case.bindings.into_iter().collect()),
        };
        let super_users: Vec<String> = case.super_users.into_iter().collect();
        write!(out, "{}\t{}\t{}", super_users.join(";"), case.allow_everyone_if_no_acl_found, lines.join("|"))?;
        for request in &case.requests {
            let subject = Subject { principal: &request.principal, host: &request.host };
            let decision = authorizer.decide(subject, request.operation, request.resource, &request.name);
            // An answer does not say which of several ACLs allows it.
            let rule = if decision.is_allowed() { String::new() } else { decision.to_string() };
            write!(
                out,
                "\t{} {} {} {} {}|{}|{}|{rule}",
                request.principal,
                request.host,
                request.operation.name(),
                request.resource.name(),
                request.name,
                decision.is_allowed(),
                authorizer.allows_somewhere(subject, request.operation, request.resource),
            )?;
        }
        writeln!(out)?;
    }
    out.flush()
}
