//! The rules of authorization written once more, short and slow: every ACL is looked at, in any order.

use rota_security::acl::{Binding, Operation, PatternType, Permission};

use crate::cases::{Case, Request};

/// A wrong rule, which the comparison with the authorizer must notice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flaw {
    None,
    AllowBeatsDeny,
    DenyImplies,
    NothingImplied,
    CreateImpliesDescribe,
    AlterConfigsImpliesNothing,
    PrefixIsLiteral,
    LiteralIsPrefix,
    WildcardIsLiteral,
    WildcardPrefixNamesAll,
    WildcardOfOtherTypes,
    HostIgnored,
    HostWildcardIgnored,
    EveryoneIgnored,
    PrincipalTypeIgnored,
    SuperUserDenied,
    OpenToStrangersOnly,
    NeverOpen,
    SomewhereIgnoresPrefixes,
    SomewhereImplies,
}

pub const FLAWS: [Flaw; 19] = [
    Flaw::AllowBeatsDeny,
    Flaw::DenyImplies,
    Flaw::NothingImplied,
    Flaw::CreateImpliesDescribe,
    Flaw::AlterConfigsImpliesNothing,
    Flaw::PrefixIsLiteral,
    Flaw::LiteralIsPrefix,
    Flaw::WildcardIsLiteral,
    Flaw::WildcardPrefixNamesAll,
    Flaw::WildcardOfOtherTypes,
    Flaw::HostIgnored,
    Flaw::HostWildcardIgnored,
    Flaw::EveryoneIgnored,
    Flaw::PrincipalTypeIgnored,
    Flaw::SuperUserDenied,
    Flaw::OpenToStrangersOnly,
    Flaw::NeverOpen,
    Flaw::SomewhereIgnoresPrefixes,
    Flaw::SomewhereImplies,
];

fn concerns(acl: &Binding, request: &Request, flaw: Flaw) -> bool {
    let name = |principal: &str| principal.split_once(':').map(|(_, name)| name.to_owned());
    let who = acl.principal == request.principal
        || (acl.principal == "User:*" && flaw != Flaw::EveryoneIgnored)
        || (flaw == Flaw::PrincipalTypeIgnored && name(&acl.principal) == name(&request.principal));
    let host = (acl.host == "*" && flaw != Flaw::HostWildcardIgnored) || acl.host == request.host;
    who && (host || flaw == Flaw::HostIgnored)
}

fn names(acl: &Binding, request: &Request, flaw: Flaw) -> bool {
    let (of, asked) = (&acl.pattern.name, &request.name);
    let all = of == "*" && (acl.pattern.kind == PatternType::Literal || flaw == Flaw::WildcardPrefixNamesAll);
    let kind = match flaw {
        Flaw::PrefixIsLiteral => PatternType::Literal,
        Flaw::LiteralIsPrefix => PatternType::Prefixed,
        _ => acl.pattern.kind,
    };
    let fits = if kind == PatternType::Prefixed { asked.starts_with(of) } else { asked == of };
    let is_type = acl.pattern.resource == request.resource || (flaw == Flaw::WildcardOfOtherTypes && all);
    is_type && (fits || (all && flaw != Flaw::WildcardIsLiteral))
}

fn is_about(acl: &Binding, asked: Operation, flaw: Flaw) -> bool {
    use Operation::{All, Alter, AlterConfigs, Create, Delete, Describe, DescribeConfigs, Read, Write};
    let implied = match (acl.operation, asked) {
        (Read | Write | Delete | Alter, Describe) => flaw != Flaw::NothingImplied,
        (AlterConfigs, DescribeConfigs) => flaw != Flaw::AlterConfigsImpliesNothing,
        (Create, Describe) => flaw == Flaw::CreateImpliesDescribe,
        _ => false,
    };
    let permits = acl.permission == Permission::Allow || flaw == Flaw::DenyImplies;
    acl.operation == All || acl.operation == asked || (implied && permits)
}

/// Whether the request is allowed.
pub fn allows(case: &Case, request: &Request, flaw: Flaw) -> bool {
    let is_super = case.super_users.contains(&request.principal);
    let named: Vec<&Binding> = case.bindings.iter().filter(|acl| names(acl, request, flaw)).collect();
    let strangers = named.iter().all(|acl| !concerns(acl, request, flaw));
    let about = |acl: &&&Binding| concerns(acl, request, flaw) && is_about(acl, request.operation, flaw);
    let mut votes: Vec<Permission> = named.iter().filter(about).map(|acl| acl.permission).collect();
    votes.sort_unstable();
    if flaw == Flaw::AllowBeatsDeny {
        votes.reverse();
    }
    if is_super && (flaw != Flaw::SuperUserDenied || votes.first() != Some(&Permission::Deny)) {
        return true;
    }
    let is_open = named.is_empty() || (flaw == Flaw::OpenToStrangersOnly && strangers);
    let default = case.allow_everyone_if_no_acl_found && is_open && flaw != Flaw::NeverOpen;
    votes.first().map_or(default, |vote| *vote == Permission::Allow)
}

/// Whether the operation is allowed on some resource of the request's type.
pub fn allows_somewhere(case: &Case, request: &Request, flaw: Flaw) -> bool {
    let counts = |acl: &&Binding| {
        let is_about = [Operation::All, request.operation].contains(&acl.operation)
            || (flaw == Flaw::SomewhereImplies && is_about(acl, request.operation, flaw));
        acl.pattern.resource == request.resource && concerns(acl, request, flaw) && is_about
    };
    let of = |permission| case.bindings.iter().filter(counts).filter(move |acl| acl.permission == permission);
    let covers = |deny: &Binding, allow: &Binding| {
        let same = deny.pattern == allow.pattern;
        let prefix = deny.pattern.kind == PatternType::Prefixed && allow.pattern.name.starts_with(&deny.pattern.name);
        same || (prefix && flaw != Flaw::SomewhereIgnoresPrefixes)
    };
    let wildcard = |acl: &Binding| acl.pattern.name == "*" && acl.pattern.kind == PatternType::Literal;
    let hardcode = Request { name: "hardcode".to_owned(), ..request.clone() };
    allows(case, &hardcode, flaw)
        || (!of(Permission::Deny).any(wildcard)
            && of(Permission::Allow)
                .any(|allow| wildcard(allow) || !of(Permission::Deny).any(|deny| covers(deny, allow))))
}
