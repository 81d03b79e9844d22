//! `DeleteAcls`.

use kafka_protocol::{
    messages::{
        DeleteAclsRequest, DeleteAclsResponse,
        delete_acls_response::{DeleteAclsFilterResult, DeleteAclsMatchingAcl},
    },
    protocol::StrBytes,
};
use rota_core::error::ErrorCode;
use rota_security::acl::{Binding, Filter, Operation};
use rota_wire::WireError;

use super::{
    acls::{FilterFields, ITEMS_MAX, check},
    context::{Context, Outcome},
};

/// Deletes the ACLs that the filters name, durably, and answers each filter with them.
pub fn handle(context: &mut Context<'_>) -> Outcome {
    let request: DeleteAclsRequest = context.decode()?;
    if request.filters.len() > ITEMS_MAX {
        return Err(WireError::TooManyElements { field: "filters" });
    }
    let filters = request.filters.into_iter().map(|filter| {
        let fields = FilterFields {
            resource_type: filter.resource_type_filter,
            name: filter.resource_name_filter,
            pattern_type: filter.pattern_type_filter,
            principal: filter.principal_filter,
            host: filter.host_filter,
            operation: filter.operation,
            permission: filter.permission_type,
        };
        fields.filter()
    });
    let filters: Vec<Filter> = filters.collect::<Result<_, _>>()?;
    let results = match check(context, Operation::Alter) {
        Err((error, message)) => filters.iter().map(|_| refused(error, message.to_owned())).collect(),
        Ok(()) => deleted(context, &filters),
    };
    Ok(context.answer(&DeleteAclsResponse::default().with_filter_results(results)))
}

fn refused(error: i16, message: String) -> DeleteAclsFilterResult {
    DeleteAclsFilterResult::default().with_error_code(error).with_error_message(Some(StrBytes::from_string(message)))
}

fn deleted(context: &Context<'_>, filters: &[Filter]) -> Vec<DeleteAclsFilterResult> {
    let Some(acls) = context.node.acls() else { return Vec::new() };
    let mut named: Vec<Vec<DeleteAclsMatchingAcl>> = Vec::new();
    let changed = acls.change(|table| {
        let of = |filter: &Filter| table.iter().filter(|binding| filter.names(binding)).map(matching).collect();
        named = filters.iter().map(of).collect();
        table.without(filters)
    });
    match changed {
        Ok(()) => named
            .into_iter()
            .map(|matching| DeleteAclsFilterResult::default().with_error_message(None).with_matching_acls(matching))
            .collect(),
        Err(error) => {
            let message = format!("the ACLs could not be deleted: {error}");
            filters.iter().map(|_| refused(ErrorCode::KafkaStorageError.code(), message.clone())).collect()
        }
    }
}

fn matching(binding: &Binding) -> DeleteAclsMatchingAcl {
    DeleteAclsMatchingAcl::default()
        .with_error_message(None)
        .with_resource_type(binding.pattern.resource.code())
        .with_resource_name(StrBytes::from_string(binding.pattern.name.clone()))
        .with_pattern_type(binding.pattern.kind.code())
        .with_principal(StrBytes::from_string(binding.principal.clone()))
        .with_host(StrBytes::from_string(binding.host.clone()))
        .with_operation(binding.operation.code())
        .with_permission_type(binding.permission.code())
}
