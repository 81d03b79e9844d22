//! The way to a violation as a transcript (tests/protocol/README.md): its steps. The player of transcripts adds what
//! happens.

use std::{
    collections::BTreeMap,
    panic::{AssertUnwindSafe, catch_unwind},
};

use rota_journal::owned::{Assignment, LeaveIdentity, Request, Text};

use super::Violation;
use crate::{
    step::{Asked, Body, Sender, Step},
    world::{Effects, World},
};

/// Clients by the seed of their first join, and who of them waits on which connection.
struct Cast {
    actors: BTreeMap<u32, String>,
    waiting: BTreeMap<u64, String>,
}

/// The text of a transcript that plays these steps.
pub fn transcript(violation: &Violation, config: &rota_core::Config) -> String {
    let title = violation.detail.lines().next().unwrap_or("");
    let mut lines = vec![
        format!("# {}: {title}", violation.id),
        "rows".to_owned(),
        "doc".to_owned(),
        format!(
            "config group.min.session.timeout.ms={} group.initial.rebalance.delay.ms={} group.max.size={} \
             offsets.commit.timeout.ms={} group.max.pending.members={}",
            config.group_min_session_timeout_ms,
            config.group_initial_rebalance_delay_ms,
            config.group_max_size,
            config.offsets_commit_timeout_ms,
            config.group_max_pending_members,
        ),
        "---".to_owned(),
    ];
    let mut world = World::new(config);
    let mut cast = Cast { actors: BTreeMap::new(), waiting: BTreeMap::new() };
    for step in &violation.steps {
        lines.push(cast.line(&world, step));
        let mut effects = Effects::default();
        let ticket = world.tickets;
        // What the core throws is what the way leads to: nothing comes after it.
        let _ = catch_unwind(AssertUnwindSafe(|| world.apply(step, &mut effects)));
        for (ticket, _, _) in &effects.answers {
            cast.waiting.remove(&ticket.0);
        }
        let answered = effects.answers.iter().any(|(other, _, _)| other.0 == ticket);
        if let Some(connection) = lines.last().and_then(|line| line.split(' ').next())
            && matches!(step, Step::Request { .. })
            && !answered
        {
            cast.waiting.insert(ticket, connection.to_owned());
        }
    }
    lines.push(String::new());
    lines.join("\n")
}

impl Cast {
    fn line(&mut self, world: &World, step: &Step) -> String {
        match step {
            Step::Tick(ms) => format!("+{ms}ms"),
            Step::End { at, error } => {
                let end = error.map_or_else(|| "stored".to_owned(), |error| format!("refused {}", error.name()));
                if *at > 0 { format!("{end} newest") } else { end }
            }
            Step::Forget(topic) => format!("forget {topic}"),
            Step::Reload { kept } => format!("# a crash; of what was in flight the log has, by bits, {kept:b}"),
            Step::Request { ask, seed, .. } => {
                let request = step.request(world).expect("a request");
                format!("{} {}", self.connection(ask, *seed), self.words(world, &request))
            }
        }
    }

    fn actor(&mut self, who: Sender, seed: u32) -> String {
        let seed = match who {
            Sender::Empty => seed,
            Sender::Minted(seed) => seed,
            Sender::Unknown => return "stranger".to_owned(),
        };
        let letter = char::from(b'a' + (self.actors.len() % 24) as u8);
        self.actors.entry(seed).or_insert_with(|| letter.to_string()).clone()
    }

    /// One that waits for nothing.
    fn connection(&mut self, ask: &Body, seed: u32) -> String {
        let mut connection = match ask {
            Body::Join { who, .. } | Body::Sync { who, .. } | Body::Heartbeat { who, .. } => self.actor(*who, seed),
            Body::Leave { members, .. } => match members.first() {
                Some((Sender::Minted(minted), _)) => self.actor(Sender::Minted(*minted), seed),
                _ => "admin".to_owned(),
            },
            Body::Commit { who: Sender::Minted(minted), .. } => self.actor(Sender::Minted(*minted), seed),
            _ => "admin".to_owned(),
        };
        while self.waiting.values().any(|waiting| *waiting == connection) {
            connection.push('\'');
        }
        connection
    }

    fn id(&self, world: &World, id: &str) -> String {
        if id.is_empty() {
            return "\"\"".to_owned();
        }
        let actor = world.seeds.get(id).and_then(|seed| self.actors.get(seed));
        actor.map_or_else(|| id.to_owned(), |actor| format!("${actor}"))
    }

    fn plan(&self, world: &World, assignments: &[Assignment<'_>]) -> String {
        let given = assignments
            .iter()
            .map(|part| format!("{}:{}", self.id(world, &part.member_id), String::from_utf8_lossy(&part.assignment)));
        given.collect::<Vec<_>>().join(",")
    }

    fn leavers(&self, world: &World, members: &[LeaveIdentity<'_>]) -> String {
        let leavers = members.iter().map(|leaver| {
            let instance = leaver.instance_id.as_ref().map_or(String::new(), |name| format!("/{name}"));
            format!("{}{instance}", self.id(world, &leaver.member_id))
        });
        leavers.collect::<Vec<_>>().join(",")
    }

    fn words(&self, world: &World, request: &Asked) -> String {
        let named =
            |instance: &Option<Text<'_>>| instance.as_ref().map_or(String::new(), |name| format!(" instance={name}"));
        match request {
            Request::JoinGroup(join) => {
                let offers: Vec<String> = join.protocols.iter().map(|offer| format!("{}:[t]", offer.name)).collect();
                format!(
                    "JoinGroup id={}{} protocols={} session={}ms rebalance={}ms v={}",
                    self.id(world, &join.member_id),
                    named(&join.instance_id),
                    offers.join(","),
                    join.session_timeout_ms,
                    join.rebalance_timeout_ms,
                    join.version
                )
            }
            Request::SyncGroup(sync) => {
                let plan = self.plan(world, &sync.assignments);
                format!(
                    "SyncGroup id={}{} generation={} type={} name={}{} v={}",
                    self.id(world, &sync.member_id),
                    named(&sync.instance_id),
                    sync.generation,
                    sync.protocol_type.as_deref().unwrap_or("null"),
                    sync.protocol_name.as_deref().unwrap_or("null"),
                    if plan.is_empty() { String::new() } else { format!(" plan={plan}") },
                    sync.version
                )
            }
            Request::Heartbeat(beat) => {
                let id = self.id(world, &beat.member_id);
                format!("Heartbeat id={id} generation={}{}", beat.generation, named(&beat.instance_id))
            }
            Request::LeaveGroup(leave) => {
                format!("LeaveGroup members={} v={}", self.leavers(world, &leave.members), leave.version)
            }
            Request::OffsetCommit(commit) => {
                let places = commit.topics.iter().flat_map(|topic| {
                    topic.partitions.iter().map(|at| format!("{}/{}={}", topic.name, at.index, at.offset))
                });
                let places: Vec<String> = places.collect();
                let (id, instance) = (self.id(world, &commit.member_id), named(&commit.instance_id));
                format!("OffsetCommit id={id} generation={}{instance} {}", commit.generation, places.join(" "))
            }
            Request::OffsetFetch(fetch) => {
                format!("OffsetFetch {}all", if fetch.require_stable { "stable " } else { "" })
            }
            Request::DescribeGroup(_)
            | Request::ListGroups(_)
            | Request::DeleteGroup(_)
            | Request::ConsumerGroupHeartbeat(_)
            | Request::ConsumerGroupDescribe(_)
            | Request::ConsumerOffsetFetch(_)
            | Request::TxnOffsetCommit(_)
            | Request::WriteTxnMarker(_) => request.name().to_owned(),
            Request::OffsetDelete(delete) => {
                let places = delete
                    .topics
                    .iter()
                    .flat_map(|topic| topic.partitions.iter().map(move |index| format!("{}/{index}", topic.name)));
                format!("OffsetDelete {}", places.collect::<Vec<_>>().join(" "))
            }
        }
    }
}
