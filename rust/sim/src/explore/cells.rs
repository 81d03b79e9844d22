//! Cells of state x event x validity: which there are, which came up, and which cannot, with the reason.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    Cell,
    events::{KINDS, STATES, Validity},
};

/// What cannot come up, as people wrote it down: `STATE KIND VALIDITY: reason`, `*` for any.
const UNREACHABLE: &str = include_str!("unreachable.txt");

/// A line of that list.
struct Line {
    words: [&'static str; 3],
    reason: &'static str,
}

fn lines() -> impl Iterator<Item = Line> {
    let told = UNREACHABLE.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    told.map(|line| {
        let (cell, reason) = line.split_once(": ").expect("a line has a reason");
        let words: Vec<&str> = cell.split_whitespace().collect();
        Line { words: words.try_into().expect("a line names state, kind and validity"), reason }
    })
}

/// Every cell.
pub fn all() -> BTreeSet<Cell> {
    let kinds = STATES.iter().flat_map(|state| KINDS.iter().map(move |kind| (*state, *kind)));
    kinds.flat_map(|(state, kind)| Validity::ALL.iter().map(move |validity| (state, kind, *validity))).collect()
}

/// Why a cell cannot be reached; `None` without such an argument.
pub fn reason(cell: &Cell) -> Option<&'static str> {
    let names = [cell.0.to_owned(), cell.1.to_owned(), format!("{:?}", cell.2)];
    let fits = |line: &Line| {
        line.words.iter().zip(&names).all(|(word, name)| *word == "*" || word.split('|').any(|one| one == name))
    };
    lines().find(fits).map(|line| line.reason)
}

/// Cells that are neither reached nor argued, and cells that are both.
pub fn unsettled(reached: &BTreeMap<Cell, u64>) -> (Vec<Cell>, Vec<Cell>) {
    let open = all().into_iter().filter(|cell| !reached.contains_key(cell) && reason(cell).is_none());
    let both = reached.keys().filter(|cell| reason(cell).is_some()).copied();
    (open.collect(), both.collect())
}
