//! What the requests about ACLs and users have in common.

use kafka_protocol::protocol::StrBytes;
use rota_core::error::ErrorCode;
use rota_security::acl::{Filter, Operation, PatternFilter, Permission, ResourceType};
use rota_wire::WireError;

use super::context::Context;

/// An error with its message.
pub type Refused = (i16, &'static str);

/// Kafka's error `SECURITY_DISABLED`.
pub const SECURITY_DISABLED: i16 = 54;

const NO_AUTHORIZER: Refused = (SECURITY_DISABLED, "No Authorizer is configured.");

/// Kafka's error for a right that the client lacks on the cluster.
pub const NOT_ALLOWED: Refused = (ErrorCode::ClusterAuthorizationFailed as i16, "Cluster authorization failed.");

/// Maximum ACLs, filters or credentials of one request.
pub const ITEMS_MAX: usize = 5_000;

/// ANY of every enumeration, in filters.
const ANY: i8 = 1;

/// Checks that there is an authorizer, and that the client may do this on the cluster.
pub fn check(context: &mut Context<'_>, operation: Operation) -> Result<(), Refused> {
    if context.node.acls().is_none() {
        return Err(NO_AUTHORIZER);
    }
    if context.access().allows_on_cluster(operation) { Ok(()) } else { Err(NOT_ALLOWED) }
}

/// Returns `None` for ANY, and otherwise the value of `found`; one that is unknown closes the connection.
pub fn unless_any<T>(code: i8, found: Option<T>) -> Result<Option<T>, WireError> {
    if code == ANY { Ok(None) } else { found.map(Some).ok_or(WireError::Undecodable) }
}

/// The fields of a filter in a request.
pub struct FilterFields {
    /// The resource type.
    pub resource_type: i8,
    /// The resource name; null: any.
    pub name: Option<StrBytes>,
    /// The pattern type.
    pub pattern_type: i8,
    /// The principal; null: any.
    pub principal: Option<StrBytes>,
    /// The host; null: any.
    pub host: Option<StrBytes>,
    /// The operation.
    pub operation: i8,
    /// The permission.
    pub permission: i8,
}

impl FilterFields {
    /// Returns the filter. An unknown enumeration value closes the connection, as with Kafka.
    pub fn filter(self) -> Result<Filter, WireError> {
        let text = |text: Option<StrBytes>| text.map(|text| text.to_string());
        Ok(Filter {
            resource: unless_any(self.resource_type, ResourceType::of_code(self.resource_type))?,
            name: text(self.name),
            kind: PatternFilter::of_code(self.pattern_type).ok_or(WireError::Undecodable)?,
            principal: text(self.principal),
            host: text(self.host),
            operation: unless_any(self.operation, Operation::of_code(self.operation))?,
            permission: unless_any(self.permission, Permission::of_code(self.permission))?,
        })
    }
}
