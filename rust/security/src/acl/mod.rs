//! Authorization by ACLs, as Kafka's `StandardAuthorizer` does it, without IO.
//!
//! An [`Authorizer`] decides whether a client may do an operation on a resource. The rules, first match wins:
//!
//! 1. A super user may do everything.
//! 2. An ACL that denies the operation, or all operations, denies it.
//! 3. An ACL that allows the operation, or one that implies it ([`Operation::implies`]), allows it.
//! 4. If no ACL names the resource, `allow.everyone.if.no.acl.found` decides. Otherwise it is denied.
//!
//! An ACL concerns a client if its principal is the client's or `User:*`, and its host the client's address or `*`. It
//! names a resource if its literal name is the resource's or `*`, or its prefix is how the resource's name begins.

mod authorizer;
mod binding;
mod filter;
mod table;
mod vocabulary;

pub use self::{
    authorizer::{Authorizer, Decision, Subject, operation_bits},
    binding::{BadBinding, Binding, CLUSTER_NAME, EVERYONE, LINE_FORM, Pattern, WILDCARD, read_lines},
    filter::{Filter, PatternFilter},
    table::AclTable,
    vocabulary::{Operation, PatternType, Permission, ResourceType},
};
