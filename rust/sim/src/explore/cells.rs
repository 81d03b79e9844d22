//! Cells of state x event x validity: which there are, which came up, and which cannot, with the reason.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    Cell,
    events::{KINDS, STATES, Validity},
};
use crate::arguments::reason_in;

/// What cannot come up, as people wrote it down: `STATE KIND VALIDITY: reason`, `*` for any.
const UNREACHABLE: &str = include_str!("unreachable.txt");

/// Every cell.
pub fn all() -> BTreeSet<Cell> {
    let kinds = STATES.iter().flat_map(|state| KINDS.iter().map(move |kind| (*state, *kind)));
    kinds.flat_map(|(state, kind)| Validity::ALL.iter().map(move |validity| (state, kind, *validity))).collect()
}

/// Why a cell cannot be reached; `None` without such an argument.
pub fn reason(cell: &Cell) -> Option<&'static str> {
    reason_in(UNREACHABLE, " ", [cell.0, cell.1, &format!("{:?}", cell.2)])
}

/// Cells that are neither reached nor argued, and cells that are both.
pub fn unsettled(reached: &BTreeMap<Cell, u64>) -> (Vec<Cell>, Vec<Cell>) {
    let open = all().into_iter().filter(|cell| !reached.contains_key(cell) && reason(cell).is_none());
    let both = reached.keys().filter(|cell| reason(cell).is_some()).copied();
    (open.collect(), both.collect())
}
