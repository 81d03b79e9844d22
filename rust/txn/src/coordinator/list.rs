//! `ListTransactions` (§3.5).

use std::collections::BTreeSet;

use super::Coordinator;
use crate::{error::Error, state::State, transaction::Transaction};

/// The filters of a listing; the default passes everything. A request may name a million producer ids, and each
/// transaction is compared with them. The host applies a pattern, for which it has the engine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// The states to list; empty: all.
    pub states: BTreeSet<State>,
    /// The producer ids to list; empty: all.
    pub producer_ids: BTreeSet<i64>,
    /// Those whose last transaction began longer ago than this; `None`: all.
    pub min_age_ms: Option<i64>,
}

impl Filter {
    fn passes(&self, transaction: &Transaction, now_ms: i64) -> bool {
        // Kafka also lists ids without an open transaction: by the start of their last one, and always without any.
        let age = |min_age_ms: i64| now_ms.saturating_sub(transaction.start_ms) > min_age_ms;
        (self.states.is_empty() || self.states.contains(&transaction.state))
            && (self.producer_ids.is_empty() || self.producer_ids.contains(&transaction.producer.id))
            && self.min_age_ms.is_none_or(age)
    }
}

impl Coordinator {
    /// Lists the ids that pass the filter. Errors: `Loading`, `NotCoordinator`.
    pub fn list<'c>(
        &'c self,
        filter: &'c Filter,
        now_ms: i64,
    ) -> Result<impl Iterator<Item = (&'c str, &'c Transaction)>, Error> {
        self.check_phase()?;
        Ok(self.transactions().filter(move |(_, transaction)| filter.passes(transaction, now_ms)))
    }
}
