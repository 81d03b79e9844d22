//! Minimises the faults of a violation (delta debugging).

use super::{Options, Report, faults::Fault, run};

/// Returns the report with as few of these faults as still cause the same violation; `None` if they cause none.
pub fn minimise(seed: u64, faults: &[Fault], options: Options) -> Option<Report> {
    let quiet = Options { lines: false, journal: false, ..options };
    let broken = run(seed, faults, quiet).violation?.id;
    let breaks = |faults: &[Fault]| run(seed, faults, quiet).violation.is_some_and(|found| found.id == broken);
    let mut needed = faults.to_vec();
    let mut size = needed.len().div_ceil(2);
    while size > 0 {
        let mut from = 0;
        while from < needed.len() {
            let mut fewer = needed.clone();
            fewer.drain(from..(from + size).min(needed.len()));
            if breaks(&fewer) {
                needed = fewer;
            } else {
                from += size;
            }
        }
        size /= 2;
    }
    Some(run(seed, &needed, options))
}
