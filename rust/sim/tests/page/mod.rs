//! What people read about the bounds and the cells.

use rota_sim::search::Found;

/// The page.
pub const PAGE: &str = include_str!("../../../../docs/exploration.md");

/// A number as the page has it.
pub fn with_commas(number: u64) -> String {
    let digits = number.to_string();
    let groups: Vec<_> = digits.as_bytes().rchunks(3).rev().map(String::from_utf8_lossy).collect();
    groups.join(",")
}

/// What the page has to say of bounds that were seen whole.
pub fn row<C, E>(name: &str, found: &Found<C, E>) -> String {
    let [states, tried, cut] = [found.states, found.transitions, found.cut].map(with_commas);
    format!("| `{name}` | {} | {states} | yes | {tried} | {cut} |", found.by_depth.len() - 1)
}
