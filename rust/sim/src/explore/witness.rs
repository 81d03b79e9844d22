//! The way to a violation as a transcript (tests/protocol/README.md): its steps. Whoever plays them adds what
//! happens.

use std::{
    collections::BTreeMap,
    panic::{AssertUnwindSafe, catch_unwind},
};

use super::Violation;
use crate::{
    owned::OwnedRequest,
    step::{Ask, Asked, Bytes, Name, Step, Who},
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
    let mut world = World::new(config, false);
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

    fn actor(&mut self, who: Who, seed: u32) -> String {
        let seed = match who {
            Who::Nobody => seed,
            Who::Minted(seed) => seed,
            Who::Stranger => return "stranger".to_owned(),
        };
        let letter = char::from(b'a' + (self.actors.len() % 24) as u8);
        self.actors.entry(seed).or_insert_with(|| letter.to_string()).clone()
    }

    /// One that waits for nothing.
    fn connection(&mut self, ask: &Ask, seed: u32) -> String {
        let mut connection = match ask {
            Ask::Join { who, .. } | Ask::Sync { who, .. } | Ask::Heartbeat { who, .. } => self.actor(*who, seed),
            Ask::Leave { members, .. } => match members.first() {
                Some((Who::Minted(minted), _)) => self.actor(Who::Minted(*minted), seed),
                _ => "admin".to_owned(),
            },
            Ask::Commit { who: Who::Minted(minted), .. } => self.actor(Who::Minted(*minted), seed),
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

    fn plan(&self, world: &World, assignments: &[(Name, Bytes)]) -> String {
        let given = assignments
            .iter()
            .map(|(member, bytes)| format!("{}:{}", self.id(world, member), String::from_utf8_lossy(bytes)));
        given.collect::<Vec<_>>().join(",")
    }

    fn leavers(&self, world: &World, members: &[(Name, Option<Name>)]) -> String {
        let leavers = members.iter().map(|(id, instance)| {
            let instance = instance.as_ref().map_or(String::new(), |name| format!("/{name}"));
            format!("{}{instance}", self.id(world, id))
        });
        leavers.collect::<Vec<_>>().join(",")
    }

    fn words(&self, world: &World, request: &Asked) -> String {
        let named =
            |instance: &Option<Name>| instance.as_ref().map_or(String::new(), |name| format!(" instance={name}"));
        match request {
            OwnedRequest::JoinGroup {
                version,
                member_id,
                instance_id,
                session_timeout_ms,
                rebalance_timeout_ms,
                protocols,
                ..
            } => {
                let offers: Vec<String> = protocols.iter().map(|(name, _)| format!("{name}:[t]")).collect();
                format!(
                    "JoinGroup id={}{} protocols={} session={session_timeout_ms}ms rebalance={rebalance_timeout_ms}ms v={version}",
                    self.id(world, member_id),
                    named(instance_id),
                    offers.join(",")
                )
            }
            OwnedRequest::SyncGroup {
                version,
                generation,
                member_id,
                instance_id,
                protocol_type,
                protocol_name,
                assignments,
                ..
            } => {
                let plan = self.plan(world, assignments);
                format!(
                    "SyncGroup id={}{} generation={generation} type={} name={}{} v={version}",
                    self.id(world, member_id),
                    named(instance_id),
                    protocol_type.as_deref().unwrap_or("null"),
                    protocol_name.as_deref().unwrap_or("null"),
                    if plan.is_empty() { String::new() } else { format!(" plan={plan}") }
                )
            }
            OwnedRequest::Heartbeat { generation, member_id, instance_id, .. } => {
                format!("Heartbeat id={} generation={generation}{}", self.id(world, member_id), named(instance_id))
            }
            OwnedRequest::LeaveGroup { version, members, .. } => {
                format!("LeaveGroup members={} v={version}", self.leavers(world, members))
            }
            OwnedRequest::OffsetCommit { generation, member_id, instance_id, topics, .. } => {
                let places = topics.iter().flat_map(|topic| {
                    topic.partitions.iter().map(|(index, offset, _, _)| format!("{}/{index}={offset}", topic.name))
                });
                let places: Vec<String> = places.collect();
                let id = self.id(world, member_id);
                format!("OffsetCommit id={id} generation={generation}{} {}", named(instance_id), places.join(" "))
            }
            OwnedRequest::OffsetFetch { require_stable, .. } => {
                format!("OffsetFetch {}all", if *require_stable { "stable " } else { "" })
            }
            OwnedRequest::DescribeGroup { .. } => "DescribeGroup".to_owned(),
            OwnedRequest::ListGroups { .. } => "ListGroups".to_owned(),
            OwnedRequest::DeleteGroup { .. } => "DeleteGroup".to_owned(),
            OwnedRequest::OffsetDelete { topics, .. } => {
                let places = topics
                    .iter()
                    .flat_map(|(topic, indexes)| indexes.iter().map(move |index| format!("{topic}/{index}")));
                format!("OffsetDelete {}", places.collect::<Vec<_>>().join(" "))
            }
        }
    }
}
