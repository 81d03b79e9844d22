//! Reports as JSON for programs in other languages.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::{
    Fault, Figures, Kind, Report, Violation,
    seeds::Total,
    timeline::{Life, Owned},
};

/// Formats one world: `seed`, `faults`, `violation` (or null), `figures`, `lines`, `lives`, `owned`.
pub fn report(report: &Report) -> Value {
    json!({
        "seed": report.seed,
        "protocol": report.protocol.name(),
        "faults": report.faults.iter().map(fault).collect::<Vec<_>>(),
        "violation": report.violation.as_ref().map(violation),
        "figures": figures(&report.figures),
        "lines": report.lines,
        "lives": report.timeline.lives.iter().map(life).collect::<Vec<_>>(),
        "owned": report.timeline.owned.iter().map(owned).collect::<Vec<_>>(),
    })
}

/// Formats many worlds: `seeds`, `figures`, `settled_ms_max`, `settled_rebalances_max`, and `broken`, the report of the
/// first violation (or null).
pub fn total(total: &Total) -> Value {
    json!({
        "seeds": total.seeds,
        "figures": figures(&total.figures),
        "settled_ms_max": total.settled_ms_max,
        "settled_rebalances_max": total.settled_rebalances_max,
        "broken": total.broken.as_ref().map(report),
    })
}

fn life(life: &Life) -> Value {
    let Life { process, name, group, from_ms, to_ms } = life;
    json!({ "process": process, "name": name, "group": group, "from_ms": from_ms, "to_ms": to_ms })
}

fn owned(owned: &Owned) -> Value {
    let Owned { process, partition, generation, from_ms, to_ms } = owned;
    let partition = partition.to_string();
    json!({
        "process": process, "partition": partition, "generation": generation, "from_ms": from_ms, "to_ms": to_ms,
    })
}

fn fault(fault: &Fault) -> Value {
    let Fault { at_ms, for_ms, kind, whom, whence } = fault;
    json!({ "at_ms": at_ms, "for_ms": for_ms, "kind": kind.name(), "whom": whom, "whence": whence })
}

fn violation(violation: &Violation) -> Value {
    json!({ "id": violation.id, "at_ms": violation.at_ms, "words": violation.words })
}

fn figures(figures: &Figures) -> Value {
    json!({
        "happenings": figures.happenings,
        "core_events": figures.core_events,
        "member_events": figures.member_events,
        "simulated_ms": figures.simulated_ms,
        "settled_ms": figures.settled_ms,
        "settled_rebalances": figures.settled_rebalances,
        "assignments": figures.assignments,
        "read": figures.read,
        "moved": figures.moved,
        "held_ms": figures.held_ms,
        "torn": figures.torn,
        "struck": by_name(&figures.struck),
        "effective": by_name(&figures.effective),
        "looked": figures.looked,
    })
}

fn by_name(counts: &BTreeMap<Kind, u64>) -> BTreeMap<&'static str, u64> {
    Kind::ALL.iter().map(|kind| (kind.name(), counts.get(kind).copied().unwrap_or(0))).collect()
}
