//! `CreateAcls`.

use kafka_protocol::{
    messages::{
        CreateAclsRequest, CreateAclsResponse, create_acls_request::AclCreation,
        create_acls_response::AclCreationResult,
    },
    protocol::StrBytes,
};
use rota_core::error::ErrorCode;
use rota_security::acl::{AclTable, BadBinding, Binding, Operation, Pattern, PatternType, Permission, ResourceType};
use rota_wire::WireError;

use super::{
    acls::{ITEMS_MAX, check},
    context::{Context, Outcome},
};

/// The number of UNKNOWN in every enumeration; it closes the connection, as with Kafka.
const UNKNOWN: i8 = 0;

/// Creates the ACLs that are right, durably, and answers each.
pub fn handle(context: &mut Context<'_>) -> Outcome {
    let request: CreateAclsRequest = context.decode()?;
    if request.creations.len() > ITEMS_MAX {
        return Err(WireError::TooManyElements { field: "creations" });
    }
    if request.creations.iter().any(is_unknown) {
        return Err(WireError::Undecodable);
    }
    let answers: Vec<AclCreationResult> = match check(context, Operation::Alter) {
        Err((error, message)) => request.creations.iter().map(|_| result(error, message)).collect(),
        Ok(()) => match request.creations.iter().map(binding).collect::<Option<Vec<Binding>>>() {
            // ANY and MATCH are for filters.
            None => request.creations.iter().map(|_| result(ErrorCode::UnknownServerError.code(), FILTER)).collect(),
            Some(bindings) => created(context, bindings),
        },
    };
    Ok(context.answer(&CreateAclsResponse::default().with_results(answers)))
}

const FILTER: &str =
    "ANY and MATCH are for filters; an ACL names one resource type, pattern type, operation and permission";

fn is_unknown(creation: &AclCreation) -> bool {
    let AclCreation { resource_type, resource_pattern_type, operation, permission_type, .. } = creation;
    [resource_type, resource_pattern_type, operation, permission_type].contains(&&UNKNOWN)
}

fn binding(creation: &AclCreation) -> Option<Binding> {
    Some(Binding {
        pattern: Pattern {
            resource: ResourceType::of_code(creation.resource_type)?,
            name: creation.resource_name.to_string(),
            kind: PatternType::of_code(creation.resource_pattern_type)?,
        },
        principal: creation.principal.to_string(),
        host: creation.host.to_string(),
        operation: Operation::of_code(creation.operation)?,
        permission: Permission::of_code(creation.permission_type)?,
    })
}

fn created(context: &Context<'_>, bindings: Vec<Binding>) -> Vec<AclCreationResult> {
    let checked: Vec<Result<Binding, BadBinding>> =
        bindings.into_iter().map(|binding| binding.check().map(|()| binding)).collect();
    let good: Vec<&Binding> = checked.iter().flatten().collect();
    let with_new = |table: &AclTable| {
        let mut table = table.clone();
        for binding in &good {
            table.add((*binding).clone());
        }
        table
    };
    let stored = context.node.acls().map_or(Ok(()), |acls| acls.change(with_new));
    let answer = |checked: &Result<Binding, BadBinding>| match (checked, &stored) {
        (Err(bad), _) => result(ErrorCode::InvalidRequest.code(), bad.to_string()),
        (Ok(_), Err(error)) => {
            result(ErrorCode::KafkaStorageError.code(), format!("the ACL could not be stored: {error}"))
        }
        (Ok(_), Ok(())) => result(ErrorCode::None.code(), ""),
    };
    checked.iter().map(answer).collect()
}

fn result(error: i16, message: impl Into<String>) -> AclCreationResult {
    AclCreationResult::default().with_error_code(error).with_error_message(Some(StrBytes::from_string(message.into())))
}
