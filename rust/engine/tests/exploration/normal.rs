//! The normal form of a world: two worlds that differ only in the time of day, in how often something was counted, or in
//! the order of flights have the same one.
//!
//! Clocks are moved to one time, and everything older than a TTL is as old as a TTL. Revisions and counters of beats
//! keep their order; of the distance between two neighbours only whether it is more than one, and that only where the
//! engine may go back: without a restore nothing adds to a number but the newest one.

use std::collections::{BTreeMap, BTreeSet};

use rota_engine::{
    Beat, CallId, Incarnation, Memory, Node, Revision, Store, View,
    memory::Flight,
    node::{
        Phase, State,
        state::{Call, Purpose},
    },
    requests::{Answer, Appended, Beaten, Body, Claimed, Content, Registered, Request, Silence},
};

use crate::world::{Host, World, has_effect, is_spent};

/// What all clocks show.
const NOW: u64 = 100;

/// Looks at numbers and may replace them.
trait Visitor {
    /// Of something that was written, compared with `==`, too.
    fn revision(&mut self, revision: &mut Revision);
    /// Of an image: only whether it is older than something that was written counts.
    fn image(&mut self, revision: &mut Revision);
    fn beat(&mut self, beat: &mut Beat);
}

/// First all numbers are collected, then each is replaced.
#[derive(Default)]
struct Collected {
    keeps_floors: bool,
    revisions: BTreeSet<u64>,
    counters: BTreeSet<(Incarnation, u64)>,
}

struct Renamed {
    revisions: BTreeMap<u64, u64>,
    counters: BTreeMap<(Incarnation, u64), u64>,
}

impl Visitor for Collected {
    fn revision(&mut self, revision: &mut Revision) {
        self.revisions.insert(revision.0);
    }
    fn image(&mut self, revision: &mut Revision) {
        if self.keeps_floors {
            self.revision(revision);
        }
    }
    fn beat(&mut self, beat: &mut Beat) {
        self.counters.insert((beat.incarnation, beat.counter));
    }
}

impl Visitor for Renamed {
    fn revision(&mut self, revision: &mut Revision) {
        revision.0 = self.revisions[&revision.0];
    }
    fn image(&mut self, revision: &mut Revision) {
        let written = self.revisions.range(..=revision.0).next_back();
        revision.0 = written.map_or(0, |(_, number)| *number);
    }
    fn beat(&mut self, beat: &mut Beat) {
        beat.counter = self.counters[&(beat.incarnation, beat.counter)];
    }
}

impl Collected {
    fn renamed(&self, gap: u64) -> Renamed {
        let mut revisions = BTreeMap::new();
        let mut last = (0, 0);
        for revision in &self.revisions {
            let number = last.1 + (revision - last.0).min(gap);
            revisions.insert(*revision, number);
            last = (*revision, number);
        }
        let mut counters = BTreeMap::new();
        let mut next: BTreeMap<Incarnation, u64> = BTreeMap::new();
        for (incarnation, counter) in &self.counters {
            // A process that was shown no beat has 0 there, which an engine that went back has, too.
            let number = next.entry(*incarnation).or_insert(u64::from(self.keeps_floors && *counter > 0));
            counters.insert((*incarnation, *counter), *number);
            *number += 1;
        }
        Renamed { revisions, counters }
    }
}

impl World {
    pub fn normalize(&mut self) {
        let may_go_back = self.left.backups > 0 || self.left.restores > 0 && self.memory.backup().is_some();
        let keeps_floors = may_go_back || self.is_restored;
        let mut store = self.memory.store().clone();
        let mut backup = self.memory.backup().filter(|_| self.left.restores > 0).cloned();
        let mut flights: Vec<Flight> = self.memory.flights().to_vec();
        let mut states: Vec<State> = self.hosts.iter().map(|host| host.node.inspect().clone()).collect();
        for (host, state) in self.hosts.iter_mut().zip(&mut states) {
            rest(host, state, keeps_floors, self.left.ttl);
            if !self.left.is_timed {
                stand_still(state, self.left.ttl);
            }
        }
        let processes: Vec<Incarnation> = self.hosts.iter().map(|host| host.config.incarnation).collect();
        if !keeps_floors {
            for flight in &mut flights {
                forget_shown(&mut flight.request);
            }
        }
        settle(&mut flights, &mut states);
        if !keeps_floors && backup.is_none() {
            flights.retain(|flight| flight.call.is_some() || !is_spent(&store, &flight.request));
        }
        let mut collected = Collected { keeps_floors, ..Collected::default() };
        visit(&mut store, &mut backup, &mut flights, &mut states, &processes, &mut collected);
        let mut renamed = collected.renamed(if keeps_floors { 2 } else { 1 });
        visit(&mut store, &mut backup, &mut flights, &mut states, &processes, &mut renamed);
        self.memory = Memory::with(store, flights, backup);
        for (host, state) in self.hosts.iter_mut().zip(states) {
            host.node = Node::with_state(host.config.clone(), state);
        }
    }
}

/// Moves a node's clock to the time that all clocks show, and forgets what no rule reads.
fn rest(host: &mut Host, state: &mut State, keeps_floors: bool, ttl: u64) {
    let now = host.clock;
    let past = |time: u64| NOW - now.saturating_sub(time).min(ttl);
    state.beat_due_ms = NOW + state.beat_due_ms.saturating_sub(now);
    // A session that has ended is as one that never began, once the node has noticed.
    state.valid_until_ms = state.valid_until_ms.map(|until_ms| NOW + until_ms.saturating_sub(now));
    state.answered_ms = past(state.answered_ms);
    for silent in state.silent.values_mut() {
        silent.since_ms = past(silent.since_ms);
    }
    for call in state.calls.values_mut() {
        if let Purpose::Beat(sent_ms) = &mut call.purpose {
            *sent_ms = past(*sent_ms);
        }
        if !keeps_floors {
            call.floor = Revision(0);
            forget_shown(&mut call.request);
        }
    }
    if !keeps_floors {
        state.known = Revision(0);
        // An engine that does not go back has every beat that it has shown.
        state.shown = None;
    }
    if state.stopped.is_some() {
        state.silent.clear();
        state.valid_until_ms = None;
        (state.beat_due_ms, state.answered_ms) = (NOW, NOW);
    }
    let owners: Vec<_> = state.view.parts.values().map(|part| part.node).collect();
    // A node does not count its own silence.
    let me = host.config.node;
    state.silent.retain(|(node, _), _| *node != me);
    state.view.beats.retain(|node, _| *node != me && owners.contains(node));
    host.clock = NOW;
}

fn forget_shown(request: &mut Request) {
    if let Body::Beat(put) = &mut request.body {
        put.shown = 0;
    }
}

/// No time passes: the session lasts, no beat is due, and every owner has been silent for long.
fn stand_still(state: &mut State, ttl: u64) {
    (state.valid_until_ms, state.beat_due_ms, state.answered_ms) = (Some(NOW + 1), NOW + 1, NOW);
    for silent in state.silent.values_mut() {
        silent.since_ms = NOW - ttl;
    }
}

/// Renumbers calls and sorts flights; those that change nothing and whose sender waits no more are gone.
fn settle(flights: &mut Vec<Flight>, states: &mut [State]) {
    for flight in flights.iter_mut() {
        let calls = &states[flight.node.0 as usize].calls;
        flight.call = flight.call.filter(|call| calls.contains_key(call));
    }
    flights.retain(|flight| flight.call.is_some() || (flight.answer.is_none() && has_effect(&flight.request)));
    for (node, state) in states.iter_mut().enumerate() {
        let mut calls: Vec<(CallId, Call)> = std::mem::take(&mut state.calls).into_iter().collect();
        calls.sort_by_key(|(_, call)| match call.purpose {
            Purpose::Beat(_) => None,
            Purpose::Of(partition, step) => Some((partition, step)),
        });
        state.next_call = calls.len() as u64;
        for (number, (old, call)) in calls.into_iter().enumerate() {
            let new = CallId(number as u64);
            let of_call = |flight: &&mut Flight| flight.node.0 as usize == node && flight.call == Some(old);
            // Old numbers are never below new ones that are still to come: both are in no order with each other.
            if let Some(flight) = flights.iter_mut().find(of_call) {
                flight.call = Some(CallId(u64::MAX - new.0));
            }
            state.calls.insert(new, call);
        }
    }
    for flight in flights.iter_mut() {
        flight.call = flight.call.map(|call| CallId(u64::MAX - call.0));
    }
    flights.sort_by_cached_key(|flight| format!("{:?} {:?} {:?}", flight.node, flight.call, flight.request));
}

fn visit(
    store: &mut Store,
    backup: &mut Option<Store>,
    flights: &mut [Flight],
    states: &mut [State],
    incarnations: &[Incarnation],
    to: &mut impl Visitor,
) {
    of_store(store, to);
    if let Some(backup) = backup {
        of_store(backup, to);
    }
    for flight in flights {
        of_request(&mut flight.request, to);
        if let Some(answer) = &mut flight.answer {
            of_answer(answer, to);
        }
    }
    for (state, incarnation) in states.iter_mut().zip(incarnations) {
        of_state(state, *incarnation, to);
    }
}

fn of_view(view: &mut View, to: &mut impl Visitor) {
    to.image(&mut view.revision);
    of_beats(view, to);
}

fn of_beats(view: &mut View, to: &mut impl Visitor) {
    for beat in view.beats.values_mut() {
        to.beat(beat);
    }
}

fn of_store(store: &mut Store, to: &mut impl Visitor) {
    of_view(&mut store.view, to);
    for revision in store.parts_written.values_mut() {
        to.revision(revision);
    }
    for log in store.logs.values_mut() {
        of_log(log, to);
    }
}

fn of_log(log: &mut rota_engine::Log, to: &mut impl Visitor) {
    if let Some(head) = &mut log.head {
        to.revision(&mut head.revision);
    }
    for entry in log.entries.values_mut() {
        to.revision(&mut entry.revision);
    }
}

fn of_prev(prev: &mut rota_engine::Prev, to: &mut impl Visitor) {
    match prev {
        rota_engine::Prev::Nothing => {}
        rota_engine::Prev::Head(revision) | rota_engine::Prev::Entry(_, revision) => to.revision(revision),
    }
}

fn of_request(request: &mut Request, to: &mut impl Visitor) {
    match &mut request.body {
        Body::Beat(put) => {
            to.beat(&mut put.beat);
            of_counter(put.beat.incarnation, &mut put.shown, to);
        }
        Body::Claim(claim) => of_claim(claim, to),
        Body::Append(append) => {
            to.revision(&mut append.token.claimed);
            of_prev(&mut append.prev, to);
        }
        Body::Check(request) => to.revision(&mut request.token.claimed),
        Body::Chunk(request) => to.revision(&mut request.token.claimed),
        Body::Head(request) => {
            to.revision(&mut request.token.claimed);
            of_prev(&mut request.prev, to);
        }
        Body::Trim(request) => to.revision(&mut request.token.claimed),
        Body::Sweep(request) => to.revision(&mut request.token.claimed),
        Body::Release(request) => to.revision(&mut request.token.claimed),
        Body::Register(_) | Body::Read(_) | Body::Usage(_) | Body::Note(_) | Body::AcceptLoss(_) => {}
    }
}

fn of_counter(incarnation: Incarnation, counter: &mut u64, to: &mut impl Visitor) {
    let mut beat = Beat { incarnation, counter: *counter };
    to.beat(&mut beat);
    *counter = beat.counter;
}

fn of_claim(claim: &mut rota_engine::requests::Claim, to: &mut impl Visitor) {
    if let Silence::Beat(_, Some(beat)) = &mut claim.silence {
        to.beat(beat);
    }
}

fn of_answer(answer: &mut Answer, to: &mut impl Visitor) {
    to.image(&mut answer.revision);
    match &mut answer.content {
        Content::Registered(Registered::As(view)) => of_view(view, to),
        Content::Claimed(Claimed::Owner(token)) => to.revision(&mut token.claimed),
        Content::Claimed(Claimed::Lost(Some((_, revision)))) => to.revision(revision),
        Content::Appended(Appended::Written(revision) | Appended::Refused { entry: Some((_, revision)), .. }) => {
            to.revision(revision);
        }
        Content::Contents(contents) => of_log(&mut contents.log, to),
        Content::OtherHistory(_)
        | Content::Registered(Registered::Taken(_))
        | Content::Beaten(Beaten::Alive(_) | Beaten::Late | Beaten::Lost | Beaten::Replaced)
        | Content::Claimed(Claimed::Lost(None))
        | Content::Appended(Appended::Refused { entry: None, .. })
        | Content::Fence(_)
        | Content::HeadPut(_)
        | Content::Used(_)
        | Content::NotePut(_)
        | Content::HistoryBegun => {}
    }
}

fn of_state(state: &mut State, incarnation: Incarnation, to: &mut impl Visitor) {
    let State {
        history: _,
        known,
        next_call: _,
        calls,
        counter,
        shown,
        beat_due_ms: _,
        valid_until_ms: _,
        answered_ms: _,
        view,
        silent,
        partitions,
        taken: _,
        stopped: _,
    } = state;
    to.image(known);
    of_counter(incarnation, counter, to);
    if let Some((revision, counter)) = shown {
        to.image(revision);
        of_counter(incarnation, counter, to);
    }
    for call in calls.values_mut() {
        to.image(&mut call.floor);
        of_request(&mut call.request, to);
    }
    // A release of what only the view shows as this node's names the view's revision.
    if view.parts.values().any(|part| part.held && part.incarnation == incarnation) {
        to.revision(&mut view.revision);
    } else {
        to.image(&mut view.revision);
    }
    of_beats(view, to);
    for silent in silent.values_mut() {
        if let Some(beat) = &mut silent.beat {
            to.beat(beat);
        }
    }
    for phase in partitions.values_mut() {
        match phase {
            Phase::Claiming(claim) => of_claim(claim, to),
            Phase::Loading(token) | Phase::Releasing(token) => to.revision(&mut token.claimed),
            Phase::Serving(serving) => {
                to.revision(&mut serving.token.claimed);
                of_prev(&mut serving.prev, to);
                if let Some(snapshot) = &mut serving.snapshot {
                    of_prev(&mut snapshot.prev, to);
                }
                if let Some((append, _)) = &mut serving.outstanding {
                    to.revision(&mut append.token.claimed);
                    of_prev(&mut append.prev, to);
                }
            }
        }
    }
}
