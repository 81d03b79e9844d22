//! `AlterUserScramCredentials`.

use std::collections::{BTreeMap, BTreeSet};

use kafka_protocol::{
    messages::{
        AlterUserScramCredentialsRequest, AlterUserScramCredentialsResponse,
        alter_user_scram_credentials_response::AlterUserScramCredentialsResult,
    },
    protocol::StrBytes,
};
use rota_core::error::ErrorCode;
use rota_security::{
    acl::Operation,
    sasl::{
        alteration::{Alteration, Salted, decide},
        users::{Change, Users},
    },
};
use rota_wire::WireError;

use super::{
    acls::{ITEMS_MAX, NOT_ALLOWED, Refused, SECURITY_DISABLED},
    context::{Context, Outcome},
};

/// The server has no listener with SASL.
const NO_USERS: Refused = (SECURITY_DISABLED, "The server has no users: start it with --users.");

/// Sets and deletes credentials, durably, and answers each user.
pub fn handle(context: &mut Context<'_>) -> Outcome {
    let request: AlterUserScramCredentialsRequest = context.decode()?;
    if request.deletions.len() + request.upsertions.len() > ITEMS_MAX {
        return Err(WireError::TooManyElements { field: "upsertions" });
    }
    let refused = |(code, message): Refused| {
        let names: BTreeSet<&str> = alterations(&request).map(|alteration| alteration.name).collect();
        names.into_iter().map(|name| result(name, code, Some(message.to_owned()))).collect()
    };
    let results = if !context.access().allows_on_cluster(Operation::Alter) {
        refused(NOT_ALLOWED)
    } else if context.node.users().sasl().is_none() {
        refused(NO_USERS)
    } else {
        altered(context, &request)
    };
    Ok(context.answer(&AlterUserScramCredentialsResponse::default().with_results(results)))
}

fn alterations(request: &AlterUserScramCredentialsRequest) -> impl Iterator<Item = Alteration<'_>> {
    let deletions = request.deletions.iter().map(|deletion| Alteration {
        name: deletion.name.as_str(),
        mechanism: deletion.mechanism,
        salted: None,
    });
    let upsertions = request.upsertions.iter().map(|upsertion| Alteration {
        name: upsertion.name.as_str(),
        mechanism: upsertion.mechanism,
        salted: Some(Salted {
            iterations: upsertion.iterations,
            salt: &upsertion.salt,
            password: &upsertion.salted_password,
        }),
    });
    deletions.chain(upsertions)
}

fn altered(context: &Context<'_>, request: &AlterUserScramCredentialsRequest) -> Vec<AlterUserScramCredentialsResult> {
    let plan = |users: &Users| {
        let mut decided = BTreeMap::new();
        let mut changes: Vec<Change> = Vec::new();
        for (name, change) in decide(users, alterations(request)) {
            decided.insert(name, change.map(|change| changes.push(change)));
        }
        (changes, decided)
    };
    let (decided, stored) = context.node.users().change(plan);
    let answer = |(name, decided): (&str, Result<(), Refused>)| match (decided, &stored) {
        (Err((code, message)), _) => result(name, code, Some(message.to_owned())),
        (Ok(()), Err(reason)) => result(name, ErrorCode::KafkaStorageError.code(), Some(reason.clone())),
        (Ok(()), Ok(())) => result(name, ErrorCode::None.code(), None),
    };
    decided.into_iter().map(answer).collect()
}

fn result(name: &str, error: i16, message: Option<String>) -> AlterUserScramCredentialsResult {
    AlterUserScramCredentialsResult::default()
        .with_user(StrBytes::from_string(name.to_owned()))
        .with_error_code(error)
        .with_error_message(message.map(StrBytes::from_string))
}
