//! Every state of the core within small bounds, and whether the explorer finds what is wrong.
//!
//! `ROTA_STATES` is how many states of each of the bounds are explored; `rota-sim explore` is the long run.

mod page;

use std::collections::BTreeMap;

use rota_core::ErrorCode;
use rota_sim::{
    explore::{
        Bounds, Fault, Found, Violation, cells,
        checks::{CHECKS, OF_STATES},
        explore, witness,
    },
    step::Step,
    world::{Effects, Success, World},
};

use page::{PAGE, row};

fn states() -> usize {
    std::env::var("ROTA_STATES").ok().map_or(4_000, |value| value.parse().expect("a number"))
}

fn explored(bounds: &Bounds, states_max: usize, fault: Option<Fault>) -> Found {
    explore(bounds, states_max, 2, fault, &mut |_| true)
}

fn shown(violation: &Violation, bounds: &Bounds) -> String {
    format!("{}: {}\n{}", violation.id, violation.detail, witness::transcript(violation, &bounds.config))
}

/// S1 to S34 as far as a step or a state shows them, and the naive coordinator in lockstep. Nothing holds only because
/// it never comes up, every cell is reached or has a reason, and the smallest bounds are seen whole. The page has the
/// figures.
#[test]
fn every_state_within_the_bounds_holds_what_it_has_to() {
    let (mut cells, mut checked) = (BTreeMap::new(), BTreeMap::new());
    for bounds in Bounds::all() {
        let is_smallest = bounds.name == "single";
        let found = explored(&bounds, if is_smallest { usize::MAX } else { states() }, None);
        assert!(found.complete || !is_smallest, "after {} layers there is still another", found.by_depth.len());
        if let Some(violation) = &found.violation {
            panic!("{}: {}", bounds.name, shown(violation, &bounds));
        }
        assert!(
            !is_smallest || PAGE.contains(&row(bounds.name, &found)),
            "the page should say {}",
            row(bounds.name, &found)
        );
        for (cell, count) in found.cells {
            *cells.entry(cell).or_insert(0) += count;
        }
        for (id, count) in found.checked {
            *checked.entry(id).or_insert(0) += count;
        }
    }
    let silent: Vec<&str> =
        CHECKS.iter().map(|(id, _)| *id).chain(OF_STATES).filter(|id| !checked.contains_key(id)).collect();
    assert!(silent.is_empty(), "no state had anything to say about {silent:?}");
    let (open, both) = cells::unsettled(&cells);
    assert!(open.is_empty(), "neither reached nor argued: {open:?}");
    assert!(both.is_empty(), "argued that it cannot be, and reached: {both:?}");
    let (all, reached) = (cells::all().len(), cells.len());
    let told = [format!("Of {all} cells, {reached} occur"), format!("why the other {} cannot", all - reached)];
    assert!(told.iter().all(|told| PAGE.contains(told)), "the page should say {told:?}");
}

/// However many share the work, the same states are found on the same paths.
#[test]
fn what_is_found_does_not_depend_on_how_many_look_for_it() {
    let bounds = Bounds::named("static").expect("these bounds");
    let [one, three] = [1, 3].map(|workers| explore(&bounds, 3_000, workers, None, &mut |_| true));
    assert_eq!((one.states, one.by_depth, one.cells), (three.states, three.by_depth, three.cells));
}

/// A member of a group in Stable gets a success.
fn is_sync(effects: &Effects) -> bool {
    effects.answers.iter().any(|(_, kind, error)| *kind == "SyncGroup" && *error == ErrorCode::None)
}

fn lose_an_answer(_: &World, _: &Step, effects: &mut Effects) {
    if is_sync(effects) {
        effects.answers.pop();
    }
}

fn answer_twice(_: &World, step: &Step, effects: &mut Effects) {
    if matches!(step, Step::End { .. })
        && let Some(first) = effects.answers.first().copied()
    {
        effects.answers.push(first);
    }
}

fn tell_the_next_generation(_: &World, _: &Step, effects: &mut Effects) {
    for (_, told) in effects.told.iter_mut().flatten() {
        if let Success::Joined { generation, .. } = told {
            *generation += 1;
        }
    }
}

fn tell_everybody_that_it_leads(_: &World, _: &Step, effects: &mut Effects) {
    for (_, told) in effects.told.iter_mut().flatten() {
        if let Success::Joined { member_id, leader, .. } = told {
            leader.clone_from(member_id);
        }
    }
}

fn give_an_old_assignment(_: &World, _: &Step, effects: &mut Effects) {
    for (_, told) in effects.told.iter_mut().flatten() {
        if let Success::Assigned(bytes) = told {
            bytes.clear();
        }
    }
}

fn let_fenced_members_in(_: &World, _: &Step, effects: &mut Effects) {
    for (_, _, error) in &mut effects.answers {
        if *error == ErrorCode::FencedInstanceId {
            *error = ErrorCode::None;
        }
    }
}

/// In the midst of a step: the waiting requests get no answer.
fn panic_before_an_answer(_: &World, _: &Step, effects: &mut Effects) {
    if is_sync(effects) {
        effects.answers.clear();
        panic!("as was planted");
    }
}

/// Each on the shortest path there is: breadth first, no shorter one is left.
#[test]
fn planted_violations_are_found_with_the_fewest_events() {
    let planted: [(&str, Fault, &str, usize); 7] = [
        ("dynamic", lose_an_answer, "S18", 5),
        ("dynamic", panic_before_an_answer, "panic", 5),
        ("dynamic", answer_twice, "S18", 2),
        ("dynamic", tell_the_next_generation, "S9", 3),
        ("dynamic", tell_everybody_that_it_leads, "S9", 4),
        ("dynamic", give_an_old_assignment, "S11", 5),
        ("static", let_fenced_members_in, "S17", 2),
    ];
    for (name, fault, id, events) in planted {
        let bounds = Bounds::named(name).expect("these bounds");
        let found = explored(&bounds, 100_000, Some(fault));
        let violation = found.violation.expect("what was planted is found");
        let told = shown(&violation, &bounds);
        assert_eq!((&*violation.id, violation.steps.len()), (id, events), "{told}");
    }
}

#[test]
fn a_violation_is_told_as_the_steps_of_a_transcript() {
    let bounds = Bounds::named("dynamic").expect("these bounds");
    let found = explored(&bounds, 10_000, Some(tell_the_next_generation));
    let text = witness::transcript(&found.violation.expect("it is found"), &bounds.config);
    let steps: Vec<&str> = text.lines().skip_while(|line| *line != "---").skip(1).collect();
    let join = "a JoinGroup id=\"\" protocols=range:[t],sticky:[t] session=3000ms rebalance=2000ms v=3";
    assert_eq!(steps, [join, "+0ms", "stored"], "{text}");
}
