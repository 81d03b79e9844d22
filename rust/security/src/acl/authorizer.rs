//! The decisions.

use std::{collections::BTreeSet, fmt, sync::Arc};

use super::{
    binding::{Binding, WILDCARD},
    table::AclTable,
    vocabulary::{Operation, PatternType, Permission, ResourceType},
};

/// Who asks, and where from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Subject<'s> {
    /// The principal, such as `User:ana`.
    pub principal: &'s str,
    /// The address of the client, such as `127.0.0.1`.
    pub host: &'s str,
}

/// A decision, with the rule that it is based on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision<'a> {
    /// Allowed: a super user.
    SuperUser,
    /// By an ACL.
    Acl(&'a Binding),
    /// Allowed, since no ACL names the resource.
    DefaultAllow,
    /// Denied, since no ACL allows it.
    DefaultDeny,
}

impl Decision<'_> {
    /// Whether the operation is allowed.
    pub fn is_allowed(self) -> bool {
        match self {
            Decision::SuperUser | Decision::DefaultAllow => true,
            Decision::Acl(binding) => binding.permission == Permission::Allow,
            Decision::DefaultDeny => false,
        }
    }
}

/// In Kafka's words.
impl fmt::Display for Decision<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Decision::SuperUser => write!(out, "SuperUser"),
            Decision::Acl(binding) => write!(out, "MatchingAcl(acl={binding})"),
            Decision::DefaultAllow => write!(out, "DefaultAllow"),
            Decision::DefaultDeny => write!(out, "DefaultDeny"),
        }
    }
}

/// Decides who may do what.
#[derive(Clone, Debug, Default)]
pub struct Authorizer {
    /// The principals that may do everything.
    pub super_users: BTreeSet<String>,
    /// Whether resources without ACLs are open to everyone.
    pub allow_everyone_if_no_acl_found: bool,
    /// The ACLs.
    pub table: Arc<AclTable>,
}

impl Authorizer {
    /// Reads `super.users`: principals, separated by semicolons. Errors: the first without a type.
    pub fn read_super_users(text: &str) -> Result<BTreeSet<String>, String> {
        let principals = text.split(';').map(str::trim).filter(|principal| !principal.is_empty());
        let check = |principal: &str| {
            if principal.contains(':') { Ok(principal.to_owned()) } else { Err(principal.to_owned()) }
        };
        principals.map(check).collect()
    }

    /// Decides about one operation on one resource.
    pub fn decide(
        &self,
        subject: Subject<'_>,
        operation: Operation,
        resource: ResourceType,
        name: &str,
    ) -> Decision<'_> {
        if self.super_users.contains(subject.principal) {
            return Decision::SuperUser;
        }
        let (mut is_named, mut allowing) = (false, None);
        for binding in self.table.naming(resource, name) {
            is_named = true;
            if !binding.concerns(subject.principal, subject.host) || !binding.decides(operation) {
                continue;
            }
            match binding.permission {
                Permission::Deny => return Decision::Acl(binding),
                Permission::Allow => allowing = allowing.or(Some(binding)),
            }
        }
        match allowing {
            Some(binding) => Decision::Acl(binding),
            None if !is_named && self.allow_everyone_if_no_acl_found => Decision::DefaultAllow,
            None => Decision::DefaultDeny,
        }
    }

    /// Whether one operation on one resource is allowed.
    pub fn allows(&self, subject: Subject<'_>, operation: Operation, resource: ResourceType, name: &str) -> bool {
        self.decide(subject, operation, resource, name).is_allowed()
    }

    /// Whether there can be a resource of this type on which the operation is allowed. As in Kafka, only ACLs of this
    /// operation and of all operations count, and the answer is yes for everyone who may use a resource without ACLs.
    pub fn allows_somewhere(&self, subject: Subject<'_>, operation: Operation, resource: ResourceType) -> bool {
        // The name that Kafka uses to find out.
        const SOME_NAME: &str = "hardcode";
        if self.allows(subject, operation, resource, SOME_NAME) {
            return true;
        }
        let concerns = |binding: &&Binding| {
            binding.concerns(subject.principal, subject.host)
                && (binding.operation == operation || binding.operation == Operation::All)
        };
        let of = |permission: Permission, kind: PatternType| -> BTreeSet<&str> {
            let bindings = self.table.of_type(resource).filter(concerns);
            bindings
                .filter(|binding| (binding.permission, binding.pattern.kind) == (permission, kind))
                .map(|binding| binding.pattern.name.as_str())
                .collect()
        };
        let denied = of(Permission::Deny, PatternType::Literal);
        let denied_prefixes = of(Permission::Deny, PatternType::Prefixed);
        let (allowed, allowed_prefixes) =
            (of(Permission::Allow, PatternType::Literal), of(Permission::Allow, PatternType::Prefixed));
        if denied.contains(WILDCARD) {
            return false;
        }
        let is_free = |name: &str| !denied_prefixes.iter().any(|prefix| name.starts_with(prefix));
        allowed.contains(WILDCARD)
            || allowed.iter().any(|name| !denied.contains(name) && is_free(name))
            || allowed_prefixes.iter().any(|prefix| is_free(prefix))
    }
}

/// Returns the operations on a resource that are allowed, as a bit per operation: the field of authorized operations.
pub fn operation_bits(resource: ResourceType, allows: impl Fn(Operation) -> bool) -> i32 {
    use Operation::{
        Alter, AlterConfigs, ClusterAction, Create, CreateTokens, Delete, Describe, DescribeConfigs, DescribeTokens,
        IdempotentWrite, Read, TwoPhaseCommit, Write,
    };
    let operations: &[Operation] = match resource {
        ResourceType::Topic => &[Read, Write, Create, Delete, Alter, Describe, DescribeConfigs, AlterConfigs],
        ResourceType::Group => &[Read, Delete, Describe, DescribeConfigs, AlterConfigs],
        ResourceType::Cluster => {
            &[Create, Alter, Describe, ClusterAction, DescribeConfigs, AlterConfigs, IdempotentWrite]
        }
        ResourceType::TransactionalId => &[Write, Describe, TwoPhaseCommit],
        ResourceType::DelegationToken => &[Describe],
        ResourceType::User => &[CreateTokens, DescribeTokens],
    };
    let allowed = operations.iter().filter(|operation| allows(**operation));
    allowed.fold(0, |bits, operation| bits | 1 << operation.code())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bits_of_all_operations_are_those_of_kafka() {
        let all = |resource| operation_bits(resource, |_| true);
        assert_eq!(all(ResourceType::Topic), 3_576);
        assert_eq!(all(ResourceType::Group), 3_400);
        assert_eq!(all(ResourceType::Cluster), 8_096);
    }

    #[test]
    fn super_users_are_separated_by_semicolons() {
        let read = |text| Authorizer::read_super_users(text);
        let both = BTreeSet::from(["User:CN=a,O=b".to_owned(), "User:admin".to_owned()]);
        assert_eq!(read(" User:admin ;User:CN=a,O=b;").unwrap(), both);
        assert_eq!(read("").unwrap(), BTreeSet::new());
        assert_eq!(read("User:a;b").unwrap_err(), "b");
    }
}
