//! `ListTransactions` (docs/transactions.md §3.5).

use kafka_protocol::{
    messages::{
        ListTransactionsRequest, ListTransactionsResponse, ProducerId, list_transactions_response::TransactionState,
    },
    protocol::StrBytes,
};
use regex_lite::{Regex, RegexBuilder};
use rota_security::acl::{Operation, ResourceType};
use rota_txn::{Api, State, coordinator::Filter};

use super::context::{Context, Outcome};

const INVALID_REGULAR_EXPRESSION: i16 = 128;
/// The largest compiled pattern, in bytes, a quarter of that of topics: ids are many, and longer than names. Its text has
/// the limit of a string.
const PROGRAM_MAX_BYTES: usize = 16_384;

/// Lists the transactional ids that this node coordinates. Clients ask every node.
pub fn handle(context: &mut Context<'_>) -> Outcome {
    let request: ListTransactionsRequest = context.decode()?;
    let (known, unknown): (Vec<StrBytes>, Vec<StrBytes>) =
        request.state_filters.into_iter().partition(|name| State::named(name).is_some());
    let mut response = ListTransactionsResponse::default().with_unknown_state_filters(unknown.clone());
    // No transaction has an unknown state.
    if known.is_empty() && !unknown.is_empty() {
        return Ok(context.answer(&response));
    }
    let pattern = request.transactional_id_pattern.as_deref().filter(|pattern| !pattern.is_empty());
    let Ok(pattern) = pattern.map(whole).transpose() else {
        return Ok(context.answer(&response.with_error_code(INVALID_REGULAR_EXPRESSION)));
    };
    let filter = filter(&known, &request.producer_id_filters, request.duration_filter);
    let access = context.access();
    let mut states = Vec::new();
    let listed = context.node.list_transactions(&filter, |id, transaction| {
        // The rights come first: a comparison takes its time, which no client should spend on ids of others.
        if !access.may(Operation::Describe, ResourceType::TransactionalId, id) {
            return;
        }
        if pattern.as_ref().is_some_and(|pattern| !pattern.is_match(id)) {
            return;
        }
        states.push(
            TransactionState::default()
                .with_transactional_id(StrBytes::from_string(id.to_owned()).into())
                .with_producer_id(ProducerId(transaction.producer.id))
                .with_transaction_state(StrBytes::from_static_str(transaction.state.name())),
        );
    });
    response.transaction_states = states;
    if let Err(error) = listed {
        response = ListTransactionsResponse::default().with_error_code(error.code(Api::DescribeTransactions, 0));
    }
    Ok(context.answer(&response))
}

/// The filter of a request, with each state and id once.
fn filter(states: &[StrBytes], producer_ids: &[ProducerId], min_age_ms: i64) -> Filter {
    Filter {
        states: states.iter().filter_map(|name| State::named(name)).collect(),
        producer_ids: producer_ids.iter().map(|id| id.0).collect(),
        min_age_ms: Some(min_age_ms).filter(|age_ms| *age_ms >= 0),
    }
}

/// A pattern that matches a whole id. Errors: it cannot be read, or is too large to be compared with many ids.
fn whole(pattern: &str) -> Result<Regex, ()> {
    let compiled = |pattern: &str| RegexBuilder::new(pattern).size_limit(PROGRAM_MAX_BYTES).build().map_err(|_| ());
    // By itself first: within the group below, `a)|(?:b` would be valid, and match more than whole ids.
    compiled(pattern)?;
    compiled(&format!(r"\A(?:{pattern})\z"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_is_one_that_matches_whole_ids() {
        let matches = |pattern: &str, id: &str| whole(pattern).map(|whole| whole.is_match(id));
        assert_eq!(matches("a|b", "b"), Ok(true));
        assert_eq!(matches("a|b", "ab"), Ok(false));
        assert_eq!(matches("a)|(?:b", "ab"), Err(()));
        assert_eq!(matches("(", "("), Err(()));
        assert_eq!(matches(".{1,100}", "ab"), Ok(true));
        assert_eq!(matches("(?:(?:.?){1000}){2}x", "x"), Err(()), "it takes long to compare");
    }

    #[test]
    fn no_transaction_is_compared_with_a_state_or_an_id_twice() {
        let states = ["Ongoing", "Empty"].repeat(1_000);
        let states: Vec<StrBytes> = states.into_iter().map(StrBytes::from_static_str).collect();
        let producer_ids = [ProducerId(7), ProducerId(8), ProducerId(9)].repeat(1_000);
        let filter = filter(&states, &producer_ids, -1);
        assert_eq!((filter.states.len(), filter.producer_ids.len(), filter.min_age_ms), (2, 3, None));
    }
}
