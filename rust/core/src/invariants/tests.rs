//! Whatever is damaged in a sound coordinator, the check that is there for it says so: every condition on its own, so
//! that none of them can go without a test that fails.

#[expect(dead_code, reason = "what only other tests use of it")]
#[path = "../../tests/scene/mod.rs"]
mod scene;

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};

use super::SAMPLE;
use crate::{
    AppendId, Config, Coordinator, LogEntry, Now, Phase, Record, Request, SelfCheck, State, Ticket,
    group::{Group, GroupHandle, Member, MemberHandle, Parked, PendingMember},
    in_flight::Purpose,
    operations::Operation,
    purgatory::OpId,
    records::OffsetValue,
    request::DeleteGroup,
    slots::Slots,
};
use scene::{Joining, Scene, config, joining};

/// Which check finds it, words that it says, and what is done to a coordinator that is sound.
type Damage = (&'static str, &'static str, fn(&mut Coordinator));

fn each_is_found(sound: &Coordinator, all: &[Damage]) {
    assert_eq!(sound.check_invariants(), Ok(()));
    for (at, (id, words, damage)) in all.iter().enumerate() {
        let mut damaged = sound.clone();
        damage(&mut damaged);
        let violation = damaged.check_invariants().expect_err(&format!("damage {at}, {id}: {words}"));
        assert!(violation.id == *id && violation.detail.contains(words), "damage {at}, {id}, {words}: {violation}");
    }
}

fn handle(coordinator: &Coordinator) -> GroupHandle {
    coordinator.find_group("g").expect("it has this group")
}

fn group(coordinator: &mut Coordinator) -> &mut Group {
    let handle = handle(coordinator);
    &mut coordinator.groups[handle]
}

/// Members have the numbers of their joining order.
fn member_handle(coordinator: &Coordinator, at: usize) -> MemberHandle {
    *coordinator.groups[handle(coordinator)].joined.values().nth(at).expect("so many members")
}

fn member(coordinator: &mut Coordinator, at: usize) -> &mut Member {
    let handle = member_handle(coordinator, at);
    &mut coordinator.members[handle]
}

/// A group that is in no table.
fn stray(coordinator: &mut Coordinator) -> GroupHandle {
    coordinator.groups.insert(Group::new("stray".into(), Now { mono_ms: 0, wall_ms: 0 }))
}

/// Makes a deadline, which is the group's from now on, of the one that it has.
fn change_join_deadline(coordinator: &mut Coordinator, operation: Operation) {
    if let Some(before) = group(coordinator).join_deadline {
        coordinator.purgatory.complete(before);
    }
    let deadline = coordinator.purgatory.watch(1_000_000, &[], operation);
    group(coordinator).join_deadline = Some(deadline);
}

fn change_session(coordinator: &mut Coordinator, at: usize, operation: Operation) {
    if let Some(before) = member(coordinator, at).session {
        coordinator.purgatory.complete(before);
    }
    let deadline = coordinator.purgatory.watch(1_000_000, &[], operation);
    member(coordinator, at).session = Some(deadline);
}

/// An append in flight without an observer.
fn forget_deadline(coordinator: &mut Coordinator, append_id: AppendId) {
    let append = coordinator.appends.get_mut(&append_id).expect("it is in flight");
    let deadline = append.deadline.take().expect("a request waits for it");
    coordinator.purgatory.complete(deadline);
}

fn only_append(coordinator: &Coordinator) -> AppendId {
    *coordinator.appends.keys().next().expect("one is in flight")
}

/// Two static members in generation 1, the first of whom leads.
fn stable_scene() -> Scene {
    let mut scene = Scene::new(config());
    scene.two_stable(&joining("i0"), &joining("i1"));
    scene
}

fn stable() -> Coordinator {
    stable_scene().coordinator
}

/// The leader has come back, the other member has not yet.
fn preparing() -> Coordinator {
    let mut scene = stable_scene();
    let leader = scene.member_ids()[0].clone();
    scene.join(&Joining { member_id: &leader, ..joining("i0") });
    assert_eq!(scene.group().state, State::PreparingRebalance);
    scene.coordinator
}

/// A new member waits for others.
fn delayed() -> Coordinator {
    let mut scene = Scene::new(Config { group_initial_rebalance_delay_ms: 3_000, ..config() });
    scene.join(&joining("i0"));
    scene.store();
    scene.coordinator
}

/// Everybody has joined, and the record of the group is in flight.
fn held() -> Coordinator {
    let mut scene = Scene::new(config());
    scene.join(&joining("i0"));
    scene.until(0);
    assert!(group(&mut scene.coordinator).join_held);
    scene.coordinator
}

/// The second member waits for the plan that the leader owes.
fn completing() -> Coordinator {
    let mut scene = Scene::new(config());
    let (_, follower) = scene.two_joined(&joining("i0"), &joining("i1"));
    scene.sync(&follower, 1, &[]);
    scene.coordinator
}

/// Both wait for the plan, which is in flight.
fn planned() -> Coordinator {
    let mut scene = Scene::new(config());
    let (leader, follower) = scene.two_joined(&joining("i0"), &joining("i1"));
    scene.sync(&leader, 1, &[]);
    scene.sync(&follower, 1, &[]);
    scene.coordinator
}

/// An id was handed out.
fn promised() -> Coordinator {
    let mut scene = Scene::new(config());
    scene.join(&Joining { instance: None, ..joining("") });
    scene.store();
    scene.coordinator
}

/// The second member's new process waits for the log.
fn replacing() -> Coordinator {
    let mut scene = stable_scene();
    scene.join(&joining("i1"));
    assert_eq!(scene.group().state, State::Stable);
    scene.coordinator
}

/// A group that has an offset and no member.
fn empty(config: Config) -> Scene {
    let mut scene = Scene::new(config);
    scene.commit("g", "t", 1);
    scene.store();
    scene
}

/// A group whose end is in flight.
fn deleting() -> Coordinator {
    let mut scene = empty(config());
    scene.send(Request::DeleteGroup(DeleteGroup { group_id: Some("g") }));
    scene.coordinator
}

/// The same, but it is the cleaner that ends it.
fn cleaning() -> Coordinator {
    let minute = Config { offsets_retention_minutes: 1, offsets_retention_check_interval_ms: 60_000, ..config() };
    let mut scene = empty(minute);
    scene.until(200_000);
    assert!(group(&mut scene.coordinator).deleting.is_some());
    scene.coordinator
}

/// A coordinator that has read of a group and is not through yet.
fn loading() -> Coordinator {
    let scene = stable_scene();
    let mut coordinator = Coordinator::new(config(), 0, 1);
    for (offset, record) in scene.records(scene.newest()).iter().enumerate() {
        coordinator.replay(&LogEntry { offset: offset as u64, timestamp_ms: 0, record: record.clone() });
    }
    assert_eq!(group(&mut coordinator).joined.len(), 2);
    coordinator
}

#[test]
fn a_leader_that_is_no_member_is_found() {
    each_is_found(
        &stable(),
        &[
            ("S3", "None with 2 members", |damaged| group(damaged).leader = None),
            ("S3", "with 2 members", |damaged| {
                let nobody = damaged.members.reserve();
                group(damaged).leader = Some(nobody);
            }),
        ],
    );
    each_is_found(
        &empty(config()).coordinator,
        &[("S3", "with 0 members", |damaged| {
            let nobody = damaged.members.reserve();
            group(damaged).leader = Some(nobody);
        })],
    );
}

#[test]
fn a_state_that_members_and_protocol_do_not_fit_is_found() {
    each_is_found(
        &stable(),
        &[
            ("S6", "Empty with 2", |damaged| group(damaged).state = State::Empty),
            ("S6", "Dead", |damaged| group(damaged).state = State::Dead),
            ("S6", "protocol None", |damaged| group(damaged).protocol_name = None),
            ("S7", "never joined a round", |damaged| member(damaged, 1).is_new = true),
        ],
    );
    each_is_found(
        &empty(config()).coordinator,
        &[("S6", "Stable with 0", |damaged| {
            group(damaged).state = State::Stable;
            group(damaged).protocol_name = Some("range".into());
        })],
    );
}

#[test]
fn a_join_phase_that_goes_on_without_need_is_found() {
    each_is_found(&preparing(), &[("S8", "everybody", |damaged| group(damaged).awaiting_join = 2)]);
    each_is_found(&delayed(), &[("S8", "everybody", |damaged| group(damaged).initial = None)]);
    each_is_found(&held(), &[("S19", "held false", |damaged| group(damaged).join_held = false)]);
}

#[test]
fn protocols_that_are_counted_or_chosen_wrong_are_found() {
    each_is_found(
        &stable(),
        &[
            ("S10", "cached", |damaged| group(damaged).support = [("range".into(), 1)].into()),
            ("S10", "in common", |damaged| {
                let mut offers = member(damaged, 1).protocols.to_vec();
                offers[0].name = "sticky".into();
                member(damaged, 1).protocols = offers.into();
                group(damaged).support = [("range".into(), 1), ("sticky".into(), 1)].into();
            }),
            ("S10", "every member's list", |damaged| group(damaged).protocol_name = Some("sticky".into())),
        ],
    );
}

#[test]
fn instances_that_are_not_those_of_the_members_are_found() {
    each_is_found(
        &stable(),
        &[
            ("S16", "2 static members", |damaged| {
                group(damaged).instances.remove("i1");
            }),
            ("S16", "2 static members", |damaged| {
                let [first, second] = [0, 1].map(|at| member_handle(damaged, at));
                group(damaged).instances = [("i0".into(), second), ("i1".into(), first)].into();
            }),
            ("S16", "2 static members", |damaged| member(damaged, 1).group = stray(damaged)),
        ],
    );
}

#[test]
fn a_request_that_is_parked_where_nothing_answers_it_is_found() {
    let join = |damaged: &mut Coordinator| {
        member(damaged, 1).parked = Some(Parked::Join { ticket: Ticket(9), version: 5 });
    };
    each_is_found(
        &stable(),
        &[
            ("S18", "the join of", join),
            ("S18", "the sync of", |damaged| member(damaged, 1).parked = Some(Parked::Sync { ticket: Ticket(9) })),
        ],
    );
    each_is_found(&completing(), &[("S18", "the join of", join)]);
    each_is_found(
        &replacing(),
        &[("S18", "the join of", |damaged| {
            member(damaged, 0).parked = Some(Parked::Join { ticket: Ticket(9), version: 5 });
        })],
    );
}

#[test]
fn a_join_phase_with_another_deadline_than_its_own_is_found() {
    each_is_found(
        &preparing(),
        &[
            ("S19", "join deadline None", |damaged| {
                let deadline = group(damaged).join_deadline.expect("it runs");
                damaged.purgatory.complete(deadline);
            }),
            ("S19", "join deadline Some(Join", |damaged| {
                let other = stray(damaged);
                change_join_deadline(damaged, Operation::Join(other));
            }),
            ("S19", "join deadline Some(InitialDelay", |damaged| {
                let own = handle(damaged);
                change_join_deadline(damaged, Operation::InitialDelay(own));
            }),
            ("S19", "is held", |damaged| group(damaged).join_held = true),
        ],
    );
    each_is_found(
        &delayed(),
        &[
            ("S19", "join deadline Some(InitialDelay", |damaged| {
                let other = stray(damaged);
                change_join_deadline(damaged, Operation::InitialDelay(other));
            }),
            ("S19", "join deadline Some(Join", |damaged| {
                let own = handle(damaged);
                change_join_deadline(damaged, Operation::Join(own));
            }),
            ("S19", "join deadline Some(Cleaner", |damaged| change_join_deadline(damaged, Operation::Cleaner)),
        ],
    );
    each_is_found(
        &stable(),
        &[
            ("S19", "join deadline Some(Join", |damaged| {
                let own = handle(damaged);
                change_join_deadline(damaged, Operation::Join(own));
            }),
            ("S19", "join deadline Some(InitialDelay", |damaged| {
                let own = handle(damaged);
                change_join_deadline(damaged, Operation::InitialDelay(own));
            }),
            ("S19", "join deadline None", |damaged| {
                let gone = damaged.purgatory.watch(1_000_000, &[], Operation::Cleaner);
                damaged.purgatory.complete(gone);
                group(damaged).join_deadline = Some(gone);
            }),
            ("S19", "is held", |damaged| group(damaged).join_held = true),
        ],
    );
}

#[test]
fn a_sync_phase_with_a_deadline_too_many_or_too_few_is_found() {
    each_is_found(&completing(), &[("S19", "sync deadline true with 0", |damaged| group(damaged).owing_sync = 0)]);
    each_is_found(&stable(), &[("S19", "sync deadline false with 1", |damaged| group(damaged).owing_sync = 1)]);
}

#[test]
fn a_member_with_another_deadline_than_it_should_have_is_found() {
    each_is_found(
        &stable(),
        &[
            ("S19", "has deadline None", |damaged| {
                let session = member(damaged, 1).session.take().expect("it runs");
                damaged.purgatory.complete(session);
            }),
            ("S19", "has deadline None", |damaged| {
                let session = member(damaged, 1).session.expect("it runs");
                damaged.purgatory.complete(session);
            }),
            ("S19", "has deadline Some(NewMember", |damaged| {
                let own = member_handle(damaged, 1);
                change_session(damaged, 1, Operation::NewMember(own));
            }),
            ("S19", "has deadline Some(Cleaner", |damaged| change_session(damaged, 1, Operation::Cleaner)),
            ("S19", "has deadline Some(Session", |damaged| {
                let other = member_handle(damaged, 0);
                change_session(damaged, 1, Operation::Session(other));
            }),
        ],
    );
    each_is_found(
        &preparing(),
        &[
            ("S19", "(parked true) has deadline Some(Session", |damaged| {
                let own = member_handle(damaged, 0);
                change_session(damaged, 0, Operation::Session(own));
            }),
            ("S19", "(parked true) has deadline None", |damaged| member(damaged, 0).is_new = true),
        ],
    );
    each_is_found(
        &delayed(),
        &[
            ("S19", "has deadline Some(NewMember", |damaged| member(damaged, 0).is_new = false),
            ("S19", "has deadline Some(Session", |damaged| {
                let own = member_handle(damaged, 0);
                change_session(damaged, 0, Operation::Session(own));
            }),
        ],
    );
    each_is_found(
        &promised(),
        &[("S19", "a pending id has no deadline", |damaged| {
            let expiry = group(damaged).pending.values().next().expect("an id").expiry;
            damaged.purgatory.complete(expiry);
        })],
    );
}

#[test]
fn counts_that_are_not_what_is_counted_are_found() {
    each_is_found(
        &stable(),
        &[
            ("S21", "0 await (cached 1)", |damaged| group(damaged).awaiting_join = 1),
            ("S21", "the table of ids", |damaged| {
                let second = member_handle(damaged, 1);
                group(damaged).members_by_id.insert("another".into(), second);
            }),
            ("S21", "1 by id, 2 by order", |damaged| member(damaged, 1).id = "another".into()),
            ("S21", "pending disjoint false", |damaged| {
                let (slot, id) = (damaged.members.reserve(), member(damaged, 1).id.shared());
                let expiry =
                    damaged.purgatory.watch(1, &[], Operation::Pending(Box::new((handle(damaged), id.clone()))));
                group(damaged).pending.insert(id, PendingMember { slot, expiry });
            }),
        ],
    );
    each_is_found(&completing(), &[("S21", "1 owe (cached 2)", |damaged| group(damaged).owing_sync = 2)]);
}

#[test]
fn more_than_the_limits_allow_is_found() {
    each_is_found(&promised(), &[("S24", "1 pending", |damaged| damaged.config.group_max_pending_members = 0)]);
    each_is_found(
        &preparing(),
        &[
            ("S24", "1 awaiting", |damaged| damaged.config.group_max_size = 0),
            ("S24", "", |damaged| damaged.config.rebalance_history = 0),
        ],
    );
}

#[test]
fn an_end_of_a_group_that_nobody_knows_of_is_found() {
    each_is_found(
        &empty(config()).coordinator,
        &[("S29", "false", |damaged| group(damaged).deleting = Some(AppendId(7)))],
    );
    for ends in [deleting(), cleaning()] {
        each_is_found(
            &ends,
            &[
                ("S29", "PreparingRebalance with 0 members", |damaged| {
                    let creating = only_append(damaged);
                    let group = group(damaged);
                    (group.state, group.join_held, group.creating) = (State::PreparingRebalance, true, Some(creating));
                }),
                ("S21", "do not know each other", |damaged| group(damaged).deleting = None),
            ],
        );
    }
}

#[test]
fn a_coordinator_that_waits_for_something_while_it_loads_is_found() {
    each_is_found(
        &loading(),
        &[
            ("S33", "while loading", |damaged| {
                group(damaged).state = State::CompletingRebalance;
                member(damaged, 1).parked = Some(Parked::Sync { ticket: Ticket(9) });
            }),
            ("S33", "while loading", |damaged| damaged.appends = deleting().appends),
        ],
    );
}

#[test]
fn a_parked_request_that_nothing_watches_is_found() {
    each_is_found(
        &held(),
        &[("L4", "PreparingRebalance", |damaged| {
            let creation = only_append(damaged);
            forget_deadline(damaged, creation);
        })],
    );
    each_is_found(
        &planned(),
        &[("L4", "CompletingRebalance", |damaged| {
            let plan = only_append(damaged);
            forget_deadline(damaged, plan);
        })],
    );
}

#[test]
fn slots_and_tables_that_do_not_name_each_other_are_found() {
    each_is_found(
        &Coordinator::new(config(), 0, 0),
        &[
            ("S21", "free slots", |damaged| damaged.groups = doubly_free()),
            ("S21", "free slots", |damaged| damaged.members = postcard::from_bytes(&DOUBLY_FREE).expect("slots")),
            ("S21", "free slots", |damaged| damaged.groups = postcard::from_bytes(&FREE_BEYOND).expect("slots")),
            ("S21", "free slots", |damaged| damaged.members = postcard::from_bytes(&FREE_BEYOND).expect("slots")),
            ("S21", "were counted", |damaged| damaged.next_append = AppendId(u64::MAX)),
        ],
    );
    each_is_found(
        &stable(),
        &[
            ("S21", "a dead group", |damaged| {
                let handle = handle(damaged);
                damaged.groups.release(handle);
            }),
            ("S21", "the joining order names a dead member", |damaged| {
                let second = member_handle(damaged, 1);
                damaged.members.release(second);
            }),
            ("S21", "the table names another group", |damaged| {
                let handle = damaged.group_ids.remove("g").expect("it is in the table");
                damaged.group_ids.insert("another".into(), handle);
            }),
            ("S21", "in no table", |damaged| {
                stray(damaged);
            }),
            ("S21", "in no table", |damaged| {
                let twin = member(damaged, 1).clone();
                damaged.members.insert(twin);
            }),
            ("S21", "1 by id, 2 by order", |damaged| {
                group(damaged).instances.remove("i1");
                Arc::make_mut(&mut member(damaged, 1).client).instance_id = None;
                member(damaged, 1).group = stray(damaged);
            }),
            ("S21", "names a member twice", |damaged| {
                let [first, second] = [0, 1].map(|at| member_handle(damaged, at));
                let group = damaged.groups.get_mut(handle(damaged)).expect("a group");
                group.joined.replace(second, first, &mut damaged.members);
            }),
            ("S21", "has another place", |damaged| damaged.members.set_place(member_handle(damaged, 1), 2)),
            ("S21", "place", |damaged| {
                let first = member(damaged, 0).id.clone();
                member(damaged, 1).id = first;
            }),
            ("S21", "the table of ids", |damaged| {
                let [first, second] = [0, 1].map(|at| (member(damaged, at).id.shared(), member_handle(damaged, at)));
                group(damaged).members_by_id = [first, second].into();
            }),
        ],
    );
    each_is_found(
        &promised(),
        &[("S21", "a pending id has no slot", |damaged| {
            let slot = group(damaged).pending.values().next().expect("an id").slot;
            damaged.members.release(slot);
        })],
    );
    each_is_found(
        &planned(),
        &[("S21", "the plan names", |damaged| {
            let nobody = damaged.members.reserve();
            group(damaged).assigning.as_mut().expect("a plan").plan.push((nobody, [].into()));
        })],
    );
}

#[test]
fn deadlines_that_are_nobodys_are_found() {
    each_is_found(
        &stable(),
        &[
            ("S19", "the cleaner", |damaged| {
                let deadline = damaged.cleaner.deadline.expect("it runs");
                damaged.purgatory.complete(deadline);
            }),
            ("S19", "the cleaner", |damaged| {
                let deadline = damaged.cleaner.deadline.take().expect("it runs");
                damaged.purgatory.complete(deadline);
            }),
            ("S19", "has no owner", |damaged| {
                let second = member_handle(damaged, 1);
                damaged.purgatory.watch(1, &[], Operation::Session(second));
            }),
        ],
    );
    each_is_found(
        &loading(),
        &[("S19", "the cleaner", |damaged| {
            let gone = damaged.purgatory.watch(1, &[], Operation::Cleaner);
            damaged.purgatory.complete(gone);
            damaged.cleaner.deadline = Some(gone);
        })],
    );
    each_is_found(
        &planned(),
        &[
            ("S19", "another owner's", |damaged| {
                let plan = only_append(damaged);
                forget_deadline(damaged, plan);
                let cleaner = damaged.cleaner.deadline;
                damaged.appends.get_mut(&plan).expect("it is in flight").deadline = cleaner;
            }),
            ("S19", "another owner's", |damaged| damaged.next_append = AppendId(0)),
        ],
    );
}

#[test]
fn a_replacement_that_is_not_in_its_predecessors_place_is_found() {
    each_is_found(
        &replacing(),
        &[
            ("S21", "different places", |damaged| {
                Arc::make_mut(&mut replaced(damaged).client).instance_id = None;
            }),
            ("S21", "different places", |damaged| replaced(damaged).group = GroupHandle::from_bits(7)),
            ("S21", "waits for an answer", |damaged| {
                replaced(damaged).parked = Some(Parked::Sync { ticket: Ticket(1) });
            }),
            ("S21", "has a session", |damaged| replaced(damaged).session = OpId::from_number(1)),
        ],
    );
}

fn replaced(coordinator: &mut Coordinator) -> &mut Member {
    let append = coordinator.appends.values_mut().next().expect("one is in flight");
    let Purpose::Replacement(replacement) = &mut append.purpose else { panic!("it is something else") };
    &mut replacement.predecessor
}

/// No slot, and one that is free twice.
const DOUBLY_FREE: [u8; 4] = [0, 2, 0, 0];
/// No slot, and one that is free where there is none.
const FREE_BEYOND: [u8; 3] = [0, 1, 7];

fn doubly_free() -> Slots<Group> {
    postcard::from_bytes(&DOUBLY_FREE).expect("slots")
}

fn notices(coordinator: &mut Coordinator, group_id: Option<&str>) -> bool {
    catch_unwind(AssertUnwindSafe(|| coordinator.debug_check(group_id))).is_err()
}

#[test]
fn a_coordinator_looks_at_the_group_of_an_event_and_without_one_at_all() {
    let mut damaged = stable();
    damaged.check_itself(SelfCheck::EveryEvent);
    group(&mut damaged).awaiting_join = 1;
    assert!(notices(&mut damaged, Some("g")) && notices(&mut damaged, None));
    assert!(!notices(&mut damaged, Some("nobody's")));
    damaged.check_itself(SelfCheck::Never);
    assert!(!notices(&mut damaged, Some("g")) && !notices(&mut damaged, None));
    let violation = damaged.check_invariants().expect_err("it is still damaged").to_string();
    assert!(violation.starts_with("S21 broken in group `g`: 0 await (cached 1)"), "{violation}");
}

#[test]
fn what_is_large_is_looked_at_once_in_so_many_events() {
    let mut coordinator = Coordinator::new(config(), 0, 0);
    for number in 0..2 * SAMPLE + 88 {
        let group_id = if number == 0 { "g".into() } else { format!("g{number}").into() };
        let value = OffsetValue {
            offset: 5,
            leader_epoch: -1,
            metadata: "".into(),
            commit_timestamp_ms: 0,
            expire_timestamp_ms: None,
            topic_id: 0,
        };
        let record = Record::Offset { group_id, topic: "t".into(), partition: 0, value: Some(value) };
        coordinator.replay(&LogEntry { offset: number as u64, timestamp_ms: 0, record });
    }
    assert_eq!((coordinator.phase, coordinator.check_invariants()), (Phase::Loading, Ok(())));
    group(&mut coordinator).awaiting_join = 1;
    coordinator.check_itself(SelfCheck::Sampled);
    assert_eq!([(); 6].map(|()| notices(&mut coordinator, None)), [false, true, false, true, false, true]);
    assert!(notices(&mut coordinator, Some("g")), "a small group is always looked at");
}
