//! What can happen in a state, within bounds: every request of every validity, time, ends of appends, crashes.

use rota_core::{ErrorCode, State};

use crate::{
    explore::{
        bounds::{Bounds, REBALANCE, SESSION},
        canonical::Names,
    },
    step::{Body, Sender, Step, index_of, offer_of},
    world::World,
};

/// What a request, or another event, is as the state sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Validity {
    /// As a well-behaved client asks.
    Valid,
    /// A generation before.
    Stale,
    /// A generation to come.
    Future,
    /// An id that was handed out and has not joined.
    Pending,
    /// An id that is no member's any more; records, or a replacement on its way, still name it.
    Former,
    /// An id that no member has.
    Stranger,
    /// The instance of a member, and an id that is not its.
    Fenced,
    /// The id of a member, and an instance that no member has.
    Misnamed,
    /// No id.
    Nobody,
    /// Other protocols than before, or none that fits.
    Other,
    /// Badly: an append fails.
    Failed,
}

impl Validity {
    /// All of them.
    pub const ALL: [Validity; 11] = [
        Validity::Valid,
        Validity::Stale,
        Validity::Future,
        Validity::Pending,
        Validity::Former,
        Validity::Stranger,
        Validity::Fenced,
        Validity::Misnamed,
        Validity::Nobody,
        Validity::Other,
        Validity::Failed,
    ];
}

/// A step, and what it is.
#[derive(Clone, Debug)]
pub struct Event {
    /// What happens.
    pub step: Step,
    /// Its kind: the request's name, or `Tick`, `End`, `Crash`, `Forget`.
    pub kind: &'static str,
    /// How well it fits.
    pub validity: Validity,
}

/// The kinds of events that there are.
pub const KINDS: [&str; 14] = [
    "JoinGroup",
    "SyncGroup",
    "Heartbeat",
    "LeaveGroup",
    "OffsetCommit",
    "OffsetFetch",
    "DescribeGroup",
    "ListGroups",
    "DeleteGroup",
    "OffsetDelete",
    "Tick",
    "End",
    "Crash",
    "Forget",
];

/// A sender of requests.
#[derive(Clone, Copy)]
struct Asker {
    who: Sender,
    instance: Option<u8>,
    validity: Validity,
    offer: Option<u8>,
}

struct Events<'a> {
    world: &'a World,
    bounds: &'a Bounds,
    seed: u32,
    found: Vec<Event>,
}

/// Every event that the bounds allow in this state, in an order that the state alone decides.
pub fn events(world: &World, names: &Names, bounds: &Bounds) -> Vec<Event> {
    let seed = world.tickets as u32;
    let mut events = Events { world, bounds, seed, found: Vec::new() };
    let askers = askers(world, names, bounds);
    if names.waiting.len() < bounds.waiting {
        events.newcomers();
        for asker in &askers {
            events.of_a_member(*asker);
        }
        events.of_anybody();
    }
    events.of_nature(names);
    events.found
}

/// Those who are there, in the state's own order, and those who only pretend.
fn askers(world: &World, names: &Names, bounds: &Bounds) -> Vec<Asker> {
    let mut askers = Vec::new();
    let members = world.views[0].as_ref().map_or(&[][..], |view| &view.members);
    let pending = world.views[0].as_ref().map_or(&[][..], |view| &view.pending);
    for id in &names.member_ids {
        let Some(seed) = world.seeds.get(id) else { continue };
        let member = members.iter().find(|member| member.member_id == *id);
        let who = Sender::Minted(*seed);
        let instance = member.and_then(|member| member.instance_id.as_deref()).and_then(index_of);
        let validity = match member {
            Some(_) => Validity::Valid,
            None if pending.iter().any(|(pending, _)| pending == id) => Validity::Pending,
            None => Validity::Former,
        };
        let offer = member.and_then(|member| offer_of(&member.protocols));
        askers.push(Asker { who, instance, validity, offer });
        if bounds.invalid && bounds.instances > 0 && member.is_some() {
            askers.push(Asker { who, instance: Some(2), validity: Validity::Misnamed, offer });
        }
    }
    if bounds.invalid {
        askers.push(stranger());
        for instance in 0..bounds.instances {
            let name = Some(crate::step::INSTANCES[usize::from(instance)]);
            if members.iter().any(|member| member.instance_id.as_deref() == name) {
                askers.push(Asker { instance: Some(instance), validity: Validity::Fenced, ..stranger() });
            }
        }
    }
    askers
}

fn stranger() -> Asker {
    Asker { who: Sender::Unknown, instance: None, validity: Validity::Stranger, offer: None }
}

impl Events<'_> {
    fn ask(&mut self, kind: &'static str, validity: Validity, ask: Body) {
        self.found.push(Event { step: Step::Request { group: 0, seed: self.seed, ask }, kind, validity });
    }

    fn join(&mut self, asker: Asker, version: i16, offer: u8) {
        let other = asker.offer.is_some_and(|before| before != offer);
        let validity = if other && asker.validity == Validity::Valid { Validity::Other } else { asker.validity };
        let ask = Body::Join {
            who: asker.who,
            instance: asker.instance,
            version,
            session: SESSION,
            rebalance: REBALANCE,
            fits: true,
            offer,
            topics: 0,
        };
        self.ask("JoinGroup", validity, ask);
    }

    /// Joins without an id.
    fn newcomers(&mut self) {
        let view = self.world.views[0].as_ref();
        let present = view.map_or(0, |view| view.members.len() + view.pending.len());
        let nobody = Asker { who: Sender::Empty, instance: None, validity: Validity::Nobody, offer: None };
        let offers = self.bounds.offers;
        for offer in offers {
            if present < self.bounds.members {
                self.join(nobody, 3, *offer);
            }
            for instance in 0..self.bounds.instances {
                let name = Some(crate::step::INSTANCES[usize::from(instance)]);
                let taken =
                    view.is_some_and(|view| view.members.iter().any(|member| member.instance_id.as_deref() == name));
                if taken || present < self.bounds.members {
                    self.join(Asker { instance: Some(instance), ..nobody }, 9, *offer);
                    if taken && offer == &offers[0] {
                        self.join(Asker { instance: Some(instance), ..nobody }, 5, *offer);
                    }
                }
            }
        }
        if present < self.bounds.members {
            self.join(nobody, 9, offers[0]);
        }
    }

    fn of_a_member(&mut self, asker: Asker) {
        let Asker { who, instance, validity, offer } = asker;
        let mut offers = self.bounds.offers;
        if !matches!(validity, Validity::Valid | Validity::Pending) {
            offers = &offers[..1];
        }
        for choice in offers {
            self.join(asker, 9, *choice);
        }
        let _ = offer;
        let generations: &[(i32, Validity)] = match validity {
            Validity::Valid if self.bounds.invalid => {
                &[(0, Validity::Valid), (-1, Validity::Stale), (1, Validity::Future)]
            }
            _ => &[(0, validity)],
        };
        for (generation, validity) in generations {
            let generation = *generation;
            let plan_versions: &[(i16, u8)] = if *validity == Validity::Valid { &[(5, 0), (5, 2)] } else { &[(5, 0)] };
            for (version, plan) in plan_versions {
                let ask = Body::Sync { who, instance, generation, version: *version, protocol: 1, plan: *plan };
                self.ask("SyncGroup", *validity, ask);
            }
            self.ask("Heartbeat", *validity, Body::Heartbeat { who, instance, generation });
            let partitions = if *validity == Validity::Valid { self.bounds.partitions } else { 1 };
            for index in 0..partitions {
                self.ask("OffsetCommit", *validity, commit(who, instance, Some(generation), index));
            }
        }
        if validity == Validity::Valid && self.bounds.invalid {
            let ask = Body::Sync { who, instance, generation: 0, version: 5, protocol: 3, plan: 2 };
            self.ask("SyncGroup", Validity::Other, ask);
        }
        self.ask("LeaveGroup", validity, Body::Leave { version: 5, members: vec![(who, instance)] });
        if instance.is_some() && validity == Validity::Valid {
            let ask = Body::Leave { version: 5, members: vec![(Sender::Empty, instance)] };
            self.ask("LeaveGroup", Validity::Nobody, ask);
        }
    }

    fn of_anybody(&mut self) {
        for index in 0..self.bounds.partitions {
            self.ask("OffsetCommit", Validity::Nobody, commit(Sender::Empty, None, None, index));
        }
        self.ask("OffsetFetch", Validity::Valid, Body::Fetch { is_stable: false, all: true });
        self.ask("OffsetFetch", Validity::Valid, Body::Fetch { is_stable: true, all: true });
        self.ask("DescribeGroup", Validity::Valid, Body::Describe { version: 6 });
        self.ask("ListGroups", Validity::Valid, Body::List { stable: false });
        if self.bounds.deletes {
            self.ask("DeleteGroup", Validity::Valid, Body::DeleteGroup);
            self.ask("OffsetDelete", Validity::Valid, Body::OffsetDelete { topic: 0, from: 2 });
        }
    }

    /// Time, the log, crashes, topics that go.
    fn of_nature(&mut self, names: &Names) {
        let mut push = |step, kind, validity| self.found.push(Event { step, kind, validity });
        if let Some(next_ms) = names.next_deadline_ms {
            let wait_ms = next_ms.saturating_sub(self.world.now.mono_ms) as u32;
            push(Step::Tick(wait_ms), "Tick", Validity::Valid);
            if let Some(tick_ms) = self.bounds.tick_ms.filter(|tick_ms| *tick_ms < wait_ms) {
                push(Step::Tick(tick_ms), "Tick", Validity::Valid);
            }
        }
        let in_flight = self.world.in_flight.len();
        let ends = if in_flight > 1 { vec![0, in_flight as u8 - 1] } else { vec![0; in_flight] };
        for at in ends {
            push(Step::End { at, error: None }, "End", Validity::Valid);
            if self.bounds.failures {
                push(Step::End { at, error: Some(ErrorCode::NotLeaderOrFollower) }, "End", Validity::Failed);
            }
        }
        if self.bounds.crashes {
            for kept in 0..1_u32 << in_flight {
                push(Step::Reload { kept }, "Crash", Validity::Valid);
            }
        }
        if self.bounds.deletes {
            push(Step::Forget("t"), "Forget", Validity::Valid);
        }
    }
}

fn commit(who: Sender, instance: Option<u8>, generation: Option<i32>, index: u8) -> Body {
    Body::Commit { who, instance, generation, version: 9, topic: 0, index, retention: 0, is_long: false }
}

/// The state that a cell is about.
pub fn state_of(world: &World) -> &'static str {
    match world.views[0].as_ref().map(|view| view.state) {
        None => "Absent",
        Some(State::Empty) => "Empty",
        Some(State::PreparingRebalance) => "PreparingRebalance",
        Some(State::CompletingRebalance) => "CompletingRebalance",
        Some(State::Stable) => "Stable",
        Some(State::Dead) => "Dead",
    }
}

/// The states that a cell can be about: a group that is Dead is gone (§2).
pub const STATES: [&str; 5] = ["Absent", "Empty", "PreparingRebalance", "CompletingRebalance", "Stable"];
