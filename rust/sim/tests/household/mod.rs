//! Members and one real coordinator in a room: nothing is lost, nothing takes time but what the members wait for.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::Arc,
};

use rota_core::{
    Answer as CoreAnswer, AppendId, Coordinator, Entropy, Record, Sink, Ticket,
    consumer_group::{config::ConsumerConfig, topics::TopicMetadata as ClusterTopic},
    request::Now,
};
use rota_member::{Answer, Effect, Event, Member, Node, Notice, Partition, Request, RequestId, To, TopicMetadata};
use rota_sim::bridge;

/// One member with an application that obeys at once.
pub struct Client {
    pub member: Member,
    pub notices: Vec<Notice>,
    pub holds: BTreeSet<Partition>,
    /// What it asked for, in order.
    pub sent: Vec<Request>,
    /// It neither hears nor speaks.
    pub is_deaf: bool,
    /// What it asks of this kind is lost on the way.
    pub loses: Option<Wanted>,
    /// The answers to requests of this kind are lost on the way.
    pub misses: Option<Wanted>,
    /// Its application handles no notice before the test says so.
    pub is_slow: bool,
    /// The age of its client, by the version of its `JoinGroup`.
    pub join_version: i16,
}

/// What a coordinator wants done.
#[derive(Default)]
pub struct Effects {
    answers: Vec<(Ticket, Option<Answer>)>,
    appends: Vec<(AppendId, Vec<Record>)>,
}

impl Sink for Effects {
    fn answer(&mut self, ticket: Ticket, answer: CoreAnswer<'_>) {
        self.answers.push((ticket, bridge::to_member(&answer)));
    }

    fn append(&mut self, append_id: AppendId, records: &[Record]) {
        self.appends.push((append_id, records.to_vec()));
    }
}

/// Whether a request is meant.
pub type Wanted = fn(&Request) -> bool;

/// The room.
pub struct Household {
    pub now_ms: u64,
    pub core: Coordinator,
    pub topics: BTreeMap<Arc<str>, TopicMetadata>,
    /// The name of each topic id.
    pub ids: BTreeMap<u128, Arc<str>>,
    pub clients: Vec<Client>,
    /// What the next request of this kind is answered instead.
    pub injected: VecDeque<(Wanted, Answer)>,
    /// Who waits for which answer.
    pub waiting: BTreeMap<Ticket, (usize, RequestId)>,
    tickets: u64,
    /// What is durable.
    pub log: Vec<Record>,
}

pub const NODE: Node = Node { id: 0, host: String::new(), port: 9092 };

impl Household {
    pub fn new(topics: &[(&str, i32)]) -> Household {
        let mut core = coordinator(0);
        core.loaded(now(0), &mut Effects::default());
        let mut household = Household {
            now_ms: 0,
            core,
            topics: BTreeMap::new(),
            ids: BTreeMap::new(),
            clients: Vec::new(),
            injected: VecDeque::new(),
            waiting: BTreeMap::new(),
            tickets: 0,
            log: Vec::new(),
        };
        for (name, partitions) in topics {
            household.create(name, *partitions);
        }
        household
    }

    /// Creates a topic, with another id than those before, or gives it more partitions.
    pub fn create(&mut self, name: &str, partitions: i32) {
        let name: Arc<str> = Arc::from(name);
        let is_known = self.topics.insert(Arc::clone(&name), of(partitions)).is_some();
        if !is_known {
            self.ids.insert(self.ids.len() as u128 + 1, Arc::clone(&name));
        }
        let topic_id = self.ids.iter().rfind(|(_, known)| **known == name).map_or(0, |(id, _)| *id);
        let topic = ClusterTopic { name, topic_id, partitions, racks: Vec::new() };
        self.core.topics_changed(&[topic], now(self.now_ms));
    }

    /// A new client that polls; its place.
    pub fn add(&mut self, member: Member) -> usize {
        self.clients.push(Client {
            member,
            notices: Vec::new(),
            holds: BTreeSet::new(),
            sent: Vec::new(),
            is_deaf: false,
            loses: None,
            misses: None,
            is_slow: false,
            join_version: bridge::JOIN_VERSION,
        });
        self.clients.len() - 1
    }

    /// Something happens to a member, and all that follows from it at once.
    pub fn happen(&mut self, at: usize, event: Event) {
        let mut todo = VecDeque::from([(at, event)]);
        while let Some((at, event)) = todo.pop_front() {
            if self.clients[at].is_deaf && matches!(event, Event::Answered { .. }) {
                continue;
            }
            let mut effects = Vec::new();
            self.clients[at].member.handle(self.now_ms, event, &mut effects);
            for effect in effects {
                match effect {
                    Effect::Send { .. } if self.clients[at].is_deaf => {}
                    Effect::Send { request, to, body } => self.serve(at, request, &to, &body, &mut todo),
                    Effect::Disconnect(_) => {}
                    Effect::Tell(notice) => self.hear(at, notice, &mut todo),
                }
            }
        }
    }

    fn hear(&mut self, at: usize, notice: Notice, todo: &mut VecDeque<(usize, Event)>) {
        let holds = &mut self.clients[at].holds;
        match &notice {
            Notice::Revoke { partitions } | Notice::Lose { partitions } => {
                for partition in partitions {
                    assert!(holds.remove(partition), "{partition} was not held");
                }
            }
            Notice::Assign { added, all, .. } => {
                for partition in added {
                    assert!(holds.insert(partition.clone()), "{partition} was held");
                }
                assert!(holds.iter().eq(all), "what is held is what the notice says");
            }
            _ => {}
        }
        if notice.wants_done() && !self.clients[at].is_slow {
            todo.push_back((at, Event::Done));
        }
        self.clients[at].notices.push(notice);
    }

    fn serve(&mut self, at: usize, request: RequestId, to: &To, body: &Request, todo: &mut VecDeque<(usize, Event)>) {
        self.clients[at].sent.push(body.clone());
        if self.injected.front().is_some_and(|(wanted, _)| wanted(body))
            && let Some((_, answer)) = self.injected.pop_front()
        {
            return todo.push_back((at, Event::Answered { request, answer }));
        }
        if self.clients[at].loses.is_some_and(|lost| lost(body)) {
            return;
        }
        let version = self.clients[at].join_version;
        let Some(owned) = bridge::to_core(body, &format!("client-{at}"), version) else {
            assert_eq!(*to, To::Any);
            let answer = match body {
                Request::FindCoordinator { .. } => Answer::FindCoordinator(Ok(NODE)),
                Request::TopicNames { ids } => {
                    let named = |id: &u128| Some((*id, self.ids.get(id)?.clone()));
                    Answer::TopicNames(ids.iter().filter_map(named).collect())
                }
                _ => Answer::Metadata { topics: self.topics.clone(), refused: Vec::new() },
            };
            return todo.push_back((at, Event::Answered { request, answer }));
        };
        assert_eq!(*to, To::Coordinator(NODE));
        self.tickets += 1;
        let (ticket, entropy) = (Ticket(self.tickets), Entropy(u128::from(self.tickets) << 64));
        if self.clients[at].misses.is_none_or(|missed| !missed(body)) {
            self.waiting.insert(ticket, (at, request));
        }
        let mut effects = Effects::default();
        let now = now(self.now_ms);
        owned.with(|request| self.core.submit(now, ticket, entropy, request, &mut effects));
        self.follow(effects, todo);
    }

    /// Every append is durable at once.
    fn follow(&mut self, mut effects: Effects, todo: &mut VecDeque<(usize, Event)>) {
        while !effects.appends.is_empty() || !effects.answers.is_empty() {
            for (ticket, answer) in std::mem::take(&mut effects.answers) {
                if let (Some((at, request)), Some(answer)) = (self.waiting.remove(&ticket), answer) {
                    todo.push_back((at, Event::Answered { request, answer }));
                }
            }
            for (append_id, records) in std::mem::take(&mut effects.appends) {
                self.log.extend(records);
                self.core.appended(append_id, Ok(append_id.0), now(self.now_ms), &mut effects);
            }
        }
    }

    /// Time passes until the condition holds, deadline by deadline; panics if it does not within `wait_ms`.
    pub fn wait_until(&mut self, wait_ms: u64, condition: impl Fn(&Household) -> bool) {
        let end_ms = self.now_ms + wait_ms;
        while !condition(self) {
            let heard = self.clients.iter();
            let next = heard.filter_map(|client| client.member.next_deadline()).chain(self.core.next_deadline()).min();
            let next = next.expect("something will happen").max(self.now_ms);
            assert!(next <= end_ms, "not within {wait_ms} ms: {:?}", self.states());
            self.now_ms = next;
            self.tick();
        }
    }

    /// Exactly so much time passes.
    pub fn pass(&mut self, wait_ms: u64) {
        let end_ms = self.now_ms + wait_ms;
        self.wait_until(wait_ms + 1, |household| {
            let heard = household.clients.iter();
            let next = heard.filter_map(|client| client.member.next_deadline()).chain(household.core.next_deadline());
            next.min().is_none_or(|next| next > end_ms)
        });
        self.now_ms = end_ms;
    }

    fn tick(&mut self) {
        let mut effects = Effects::default();
        self.core.advance(now(self.now_ms), &mut effects);
        let mut todo = VecDeque::new();
        self.follow(effects, &mut todo);
        for (at, event) in todo {
            self.happen(at, event);
        }
        for at in 0..self.clients.len() {
            if self.clients[at].member.next_deadline().is_some_and(|deadline| deadline <= self.now_ms) {
                self.happen(at, Event::Advance);
            }
        }
    }

    fn states(&self) -> Vec<(rota_member::State, i32, usize)> {
        let of = |client: &Client| (client.member.state(), client.member.generation(), client.holds.len());
        self.clients.iter().map(of).collect()
    }

    /// Everybody in the group has its assignment, of one generation, and together they hold everything, once.
    pub fn is_settled(&self, places: &[usize]) -> bool {
        let members = || places.iter().map(|&at| &self.clients[at]);
        let total: i32 = self.topics.values().map(|topic| topic.partitions).sum();
        let held: Vec<&Partition> = members().flat_map(|client| &client.holds).collect();
        let distinct: BTreeSet<&Partition> = held.iter().copied().collect();
        let generations: BTreeSet<i32> = members().map(|client| client.member.generation()).collect();
        members().all(|client| client.member.state() == rota_member::State::Stable)
            && generations.len() == 1
            && held.len() == distinct.len()
            && held.len() == total as usize
    }
}

/// One that has everything yet to load.
pub fn coordinator(epoch: u32) -> Coordinator {
    let config = rota_core::Config { group_initial_rebalance_delay_ms: 0, ..Default::default() };
    let mut coordinator = Coordinator::new(config, 0, epoch);
    coordinator.configure_consumer_groups(ConsumerConfig { enabled: true, ..Default::default() });
    coordinator
}

pub fn of(partitions: i32) -> TopicMetadata {
    TopicMetadata { partitions, racks: Vec::new() }
}

pub fn now(mono_ms: u64) -> Now {
    Now { mono_ms, wall_ms: 1_700_000_000_000 + mono_ms as i64 }
}
