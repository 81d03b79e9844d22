//! `DescribeAcls`.

use std::collections::BTreeMap;

use kafka_protocol::{
    messages::{
        DescribeAclsRequest, DescribeAclsResponse,
        describe_acls_response::{AclDescription, DescribeAclsResource},
    },
    protocol::StrBytes,
};
use rota_security::acl::{Binding, Operation, Pattern};

use super::{
    acls::{FilterFields, check},
    context::{Context, Outcome},
};
use crate::log::acls::Acls;

/// Answers with the ACLs that the filter names, by resource.
pub fn handle(context: &mut Context<'_>) -> Outcome {
    let request: DescribeAclsRequest = context.decode()?;
    let filter = FilterFields {
        resource_type: request.resource_type_filter,
        name: request.resource_name_filter,
        pattern_type: request.pattern_type_filter,
        principal: request.principal_filter,
        host: request.host_filter,
        operation: request.operation,
        permission: request.permission_type,
    };
    let filter = filter.filter()?;
    if let Err((error, message)) = check(context, Operation::Describe) {
        let refused = DescribeAclsResponse::default()
            .with_error_code(error)
            .with_error_message(Some(StrBytes::from_static_str(message)));
        return Ok(context.answer(&refused));
    }
    let authorizer = context.node.acls().map(Acls::authorizer).unwrap_or_default();
    let mut by_pattern: BTreeMap<&Pattern, Vec<&Binding>> = BTreeMap::new();
    for binding in authorizer.table.iter().filter(|binding| filter.names(binding)) {
        by_pattern.entry(&binding.pattern).or_default().push(binding);
    }
    let resources = by_pattern.into_iter().map(|(pattern, bindings)| {
        DescribeAclsResource::default()
            .with_resource_type(pattern.resource.code())
            .with_resource_name(StrBytes::from_string(pattern.name.clone()))
            .with_pattern_type(pattern.kind.code())
            .with_acls(bindings.into_iter().map(described).collect())
    });
    Ok(context.answer(&DescribeAclsResponse::default().with_resources(resources.collect())))
}

fn described(binding: &Binding) -> AclDescription {
    AclDescription::default()
        .with_principal(StrBytes::from_string(binding.principal.clone()))
        .with_host(StrBytes::from_string(binding.host.clone()))
        .with_operation(binding.operation.code())
        .with_permission_type(binding.permission.code())
}
