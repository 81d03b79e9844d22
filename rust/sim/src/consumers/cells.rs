//! Cells of state x request x sender: which there are, which came up, and which cannot, with the reason.

use std::collections::{BTreeMap, BTreeSet};

use super::events::{Cell, REQUESTS, SENDERS, STATES};

/// What does not come up, as people wrote it down: `STATE; REQUEST; SENDER: reason`, `*` for any, `|` between several.
const UNREACHABLE: &str = include_str!("unreachable.txt");
/// In place of a reason: more states may have the cell.
const LATER: &str = "later";

/// A line of that list.
struct Line {
    cell: [&'static str; 3],
    reason: &'static str,
}

fn lines() -> impl Iterator<Item = Line> {
    let told = UNREACHABLE.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    told.map(|line| {
        let (cell, reason) = line.split_once(": ").expect("a line has a reason");
        let cell: Vec<&str> = cell.split("; ").collect();
        Line { cell: cell.try_into().expect("a line names state, request and sender"), reason }
    })
}

/// Every cell.
pub fn all() -> BTreeSet<Cell> {
    let pairs = STATES.iter().flat_map(|state| REQUESTS.iter().map(move |request| (*state, *request)));
    pairs.flat_map(|(state, request)| SENDERS.iter().map(move |sender| (state, request, *sender))).collect()
}

fn line_of(cell: &Cell) -> Option<Line> {
    let names = [cell.0, cell.1, cell.2];
    let fits = |line: &Line| {
        line.cell.iter().zip(names).all(|(told, name)| *told == "*" || told.split('|').any(|one| one == name))
    };
    lines().find(fits)
}

/// Why a cell cannot be reached; `None` without such an argument.
pub fn reason(cell: &Cell) -> Option<&'static str> {
    line_of(cell).map(|line| line.reason).filter(|reason| *reason != LATER)
}

/// Cells that the list leaves to longer explorations.
pub fn left() -> usize {
    all().iter().filter(|cell| line_of(cell).is_some_and(|line| line.reason == LATER)).count()
}

/// Cells that are neither reached nor in the list, and cells that are reached although the list says why they cannot be.
pub fn unsettled(reached: &BTreeMap<Cell, u64>) -> (Vec<Cell>, Vec<Cell>) {
    let open = all().into_iter().filter(|cell| !reached.contains_key(cell) && line_of(cell).is_none());
    let both = reached.keys().filter(|cell| !cell.1.is_empty() && reason(cell).is_some()).copied();
    (open.collect(), both.collect())
}
