//! The table of requests by state (§3). A cell is the error code, `e+1` if the answer has a producer (or `new:0`), and
//! the state after it if that is another one.

use rota_txn::{Answer, Producer, Request, State, TransactionVersion};

use crate::scene::{ID, NONE, Scene, add, shown};

use TransactionVersion::{V1, V2};

const STATES: [&str; 6] = ["unknown id", "Empty", "Ongoing", "Prepare", "CompleteCommit", "CompleteAbort"];

/// The current producer, at level 2.
const AT_LEVEL_2: &[(&str, [&str; 6])] = &[
    ("init", ["0 new:0 >Empty", "0 e+1", "51 >PrepareAbort", "51", "0 e+1 >Empty", "0 e+1 >Empty"]),
    ("init own", ["0 new:0 >Empty", "0 e+1", "51 >PrepareAbort", "51", "0 e+1 >Empty", "0 e+1 >Empty"]),
    ("add", ["49", "0 >Ongoing", "0", "51", "0 >Ongoing", "0 >Ongoing"]),
    ("add nothing", ["49", "0 >Ongoing", "0", "51", "0 >Ongoing", "0 >Ongoing"]),
    ("leader adds", ["49", "0 >Ongoing", "0", "51", "0 >Ongoing", "0 >Ongoing"]),
    ("end v4 commit", ["49", "48", "0 >PrepareCommit", "51", "0", "48"]),
    ("end v4 abort", ["49", "48", "0 >PrepareAbort", "51", "48", "0"]),
    ("end v5 commit", ["49", "48", "0 e+1 >PrepareCommit", "51", "48", "48"]),
    ("end v5 abort", ["49", "0 e+1 >CompleteAbort", "0 e+1 >PrepareAbort", "51", "0 e+1 >CompleteAbort", "0 e+1"]),
];

/// A producer with an epoch that is one too great. In a Complete state, one too small is a repetition for `end v5`.
const AHEAD: &[(&str, [&str; 6])] = &[
    ("init own", ["0 new:0 >Empty", "90", "51 >PrepareAbort", "51", "90", "90"]),
    ("add", ["49", "90", "90", "51", "90", "90"]),
    ("leader adds", ["49", "90", "90", "51", "90", "90"]),
    ("end v4 commit", ["49", "90", "90", "90", "90", "90"]),
    ("end v4 abort", ["49", "90", "90", "90", "90", "90"]),
    ("end v5 commit", ["49", "90", "90", "51", "90", "90"]),
    ("end v5 abort", ["49", "90", "90", "51", "90", "90"]),
];

const BEHIND: &[(&str, [&str; 6])] = &[
    ("init own", ["0 new:0 >Empty", "90", "51 >PrepareAbort", "51", "90", "90"]),
    ("add", ["49", "90", "90", "51", "90", "90"]),
    ("end v4 commit", ["49", "90", "90", "90", "90", "90"]),
    ("end v4 abort", ["49", "90", "90", "90", "90", "90"]),
    ("end v5 commit", ["49", "90", "90", "51", "0 e+0", "48"]),
    ("end v5 abort", ["49", "90", "90", "51", "48", "0 e+0"]),
];

const OTHER_ID: &[(&str, [&str; 6])] = &[
    ("init own", ["0 new:0 >Empty", "90", "90", "51", "90", "90"]),
    ("add", ["49", "49", "49", "51", "49", "49"]),
    ("end v4 commit", ["49", "49", "49", "49", "49", "49"]),
    ("end v5 commit", ["49", "49", "49", "51", "49", "49"]),
];

fn scene_in(state: &str, level: i16) -> Scene {
    let mut scene = Scene::at_level(level);
    if state == "unknown id" {
        return scene;
    }
    let request = scene.init(NONE);
    scene.ask(request);
    // An epoch below which there is one, whose predecessor no answer has named.
    let request = scene.init(NONE);
    scene.ask(request);
    if state == "Empty" {
        return scene;
    }
    let producer = scene.producer();
    scene.ask(add(producer, V1, &[("t", 0)]));
    if state == "Ongoing" {
        return scene;
    }
    scene.holds_markers = state == "Prepare";
    let request = scene.end(producer, state != "CompleteAbort", V1);
    scene.ask(request);
    scene
}

fn request(scene: &mut Scene, name: &str, producer: Producer) -> Request {
    match name {
        "init" => scene.init(NONE),
        "init own" => scene.init(producer),
        "add" => add(producer, V1, &[("t", 0)]),
        "add nothing" => add(producer, V1, &[]),
        "leader adds" => add(producer, V2, &[("t", 0)]),
        "end v4 commit" => scene.end(producer, true, V1),
        "end v4 abort" => scene.end(producer, false, V1),
        "end v5 commit" => scene.end(producer, true, V2),
        "end v5 abort" => scene.end(producer, false, V2),
        _ => panic!("no request `{name}`"),
    }
}

fn cell(name: &str, state: &str, level: i16, who: impl Fn(Producer) -> Producer) -> String {
    let mut scene = scene_in(state, level);
    let (before, current) = (scene.state(), scene.producer());
    let producer = if current == NONE { Producer { id: 7, epoch: 3 } } else { who(current) };
    scene.holds_markers = true;
    let request = request(&mut scene, name, producer);
    let answer = scene.ask(request);
    let mut cell = shown(answer);
    if let Answer::Producer(given) = answer {
        cell = if given.id == current.id {
            format!("0 e+{}", given.epoch - current.epoch)
        } else {
            format!("0 new:{}", given.epoch)
        };
    }
    match scene.state() {
        after if after == before => cell,
        after => format!("{cell} >{}", after.map_or("", State::name)),
    }
}

fn compare(table: &[(&str, [&str; 6])], level: i16, who: impl Fn(Producer) -> Producer) {
    for (name, cells) in table {
        for (state, expected) in STATES.into_iter().zip(cells) {
            assert_eq!(cell(name, state, level, &who), *expected, "{name} in {state}");
        }
    }
}

#[test]
fn the_current_producer_gets_the_answers_of_the_table() {
    compare(AT_LEVEL_2, 2, |current| current);
}

#[test]
fn a_producer_with_a_greater_epoch_is_fenced() {
    compare(AHEAD, 2, |current| Producer { epoch: current.epoch + 1, ..current });
}

#[test]
fn a_producer_with_a_lower_epoch_is_fenced_or_repeats() {
    compare(BEHIND, 2, |current| Producer { epoch: current.epoch - 1, ..current });
}

#[test]
fn another_producer_id_is_unknown() {
    compare(OTHER_ID, 2, |current| Producer { id: current.id + 1, ..current });
}

#[test]
fn at_level_0_the_second_protocol_is_refused_and_the_first_answers_the_same() {
    for (name, cells) in AT_LEVEL_2 {
        for (state, expected) in STATES.into_iter().zip(cells) {
            let is_second = name.starts_with("end v5") || *name == "leader adds";
            let expected = if is_second { "35" } else { expected };
            assert_eq!(cell(name, state, 0, |current| current), expected, "{name} in {state}");
        }
    }
}

#[test]
fn a_request_that_contradicts_itself_is_refused_in_every_state() {
    for state in STATES {
        let mut scene = scene_in(state, 2);
        let before = scene.state();
        let mut ask = |own, timeout_ms, id: &str| {
            let transactional_id = id.to_owned();
            let request = Request::InitProducerId { transactional_id, timeout_ms, own, spare_producer_id: 900 };
            shown(scene.ask(request))
        };
        assert_eq!(ask(NONE, 60_000, ""), "42");
        assert_eq!(ask(Producer { id: 5, epoch: -1 }, 60_000, ID), "42");
        assert_eq!(ask(Producer { id: -1, epoch: 0 }, 60_000, ID), "42");
        assert_eq!(ask(NONE, 0, ID), "50");
        assert_eq!(ask(NONE, 900_001, ID), "50");
        assert_eq!(scene.state(), before, "in {state}");
    }
}
