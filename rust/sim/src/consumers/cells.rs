//! Cells of state x request x sender: which there are, which came up, and which cannot, with the reason.

use std::collections::{BTreeMap, BTreeSet};

use super::events::{Cell, REQUESTS, SENDERS, STATES};
use crate::arguments::reason_in;

/// What does not come up, as people wrote it down: `STATE; REQUEST; SENDER: reason`, `*` for any, `|` between several.
const UNREACHABLE: &str = include_str!("unreachable.txt");

/// Every cell.
pub fn all() -> BTreeSet<Cell> {
    let pairs = STATES.iter().flat_map(|state| REQUESTS.iter().map(move |request| (*state, *request)));
    pairs.flat_map(|(state, request)| SENDERS.iter().map(move |sender| (state, request, *sender))).collect()
}

/// Why a cell cannot be reached; `None` without such an argument.
pub fn reason(cell: &Cell) -> Option<&'static str> {
    reason_in(UNREACHABLE, "; ", [cell.0, cell.1, cell.2])
}

/// Cells that are neither reached nor in the list, and cells that are reached although the list says why they cannot be.
pub fn unsettled(reached: &BTreeMap<Cell, u64>) -> (Vec<Cell>, Vec<Cell>) {
    let open = all().into_iter().filter(|cell| !reached.contains_key(cell) && reason(cell).is_none());
    let both = reached.keys().filter(|cell| !cell.1.is_empty() && reason(cell).is_some()).copied();
    (open.collect(), both.collect())
}
