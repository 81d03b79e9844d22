//! `DescribeUserScramCredentials`: mechanisms and iterations, never salts and keys.

use std::collections::BTreeMap;

use kafka_protocol::{
    messages::{
        DescribeUserScramCredentialsRequest, DescribeUserScramCredentialsResponse,
        describe_user_scram_credentials_response::{CredentialInfo, DescribeUserScramCredentialsResult},
    },
    protocol::StrBytes,
};
use rota_security::{
    acl::Operation,
    sasl::{
        alteration::{DUPLICATE_RESOURCE, RESOURCE_NOT_FOUND},
        users::Users,
    },
};

use super::{
    acls::NOT_ALLOWED,
    context::{Context, Outcome},
};

/// Answers with the named users, or with all.
pub fn handle(context: &mut Context<'_>) -> Outcome {
    let request: DescribeUserScramCredentialsRequest = context.decode()?;
    if !context.access().allows_on_cluster(Operation::Describe) {
        // As Kafka has it: the error twice, and no message.
        let (code, _) = NOT_ALLOWED;
        let nobody = DescribeUserScramCredentialsResult::default().with_error_code(code).with_error_message(None);
        let refused = DescribeUserScramCredentialsResponse::default()
            .with_error_code(code)
            .with_error_message(None)
            .with_results(vec![nobody]);
        return Ok(context.answer(&refused));
    }
    let sasl = context.node.users().sasl();
    let users = sasl.as_ref().map(|sasl| &*sasl.users);
    let named = request.users.unwrap_or_default();
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for user in &named {
        *counts.entry(user.name.as_str()).or_default() += 1;
    }
    if named.is_empty() {
        counts.extend(users.into_iter().flat_map(Users::names).map(|name| (name, 1)));
    }
    let results = counts.into_iter().map(|(name, count)| described(users, name, count > 1)).collect();
    Ok(context.answer(&DescribeUserScramCredentialsResponse::default().with_results(results)))
}

fn described(users: Option<&Users>, name: &str, is_repeated: bool) -> DescribeUserScramCredentialsResult {
    let result = DescribeUserScramCredentialsResult::default().with_user(StrBytes::from_string(name.to_owned()));
    let refused = |code, reason: &str| {
        let message = StrBytes::from_string(format!("{reason}: {name}"));
        result.clone().with_error_code(code).with_error_message(Some(message))
    };
    if is_repeated {
        return refused(
            DUPLICATE_RESOURCE,
            "Cannot describe SCRAM credentials for the same user twice in a single request",
        );
    }
    let infos: Vec<CredentialInfo> = users
        .into_iter()
        .flat_map(|users| users.mechanisms(name))
        .map(|own| CredentialInfo::default().with_mechanism(own.hash.code()).with_iterations(own.iterations as i32))
        .collect();
    if infos.is_empty() {
        return refused(RESOURCE_NOT_FOUND, "Attempt to describe a user credential that does not exist");
    }
    result.with_error_message(Some(StrBytes::default())).with_credential_infos(infos)
}
