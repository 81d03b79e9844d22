//! Plans the assignments as the leader (§22.7).

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use rota_assign::{Assignor, Scratch, names, problem::NOBODY};
use rota_core::embedded::{self, Subscription};

use crate::{
    config::{Config, Strategy},
    event::{Failure, Joined, Partition, TopicMetadata},
    rounds::by_topic,
};

/// Member ids with embedded assignments.
type Assignments = Vec<(String, Vec<u8>)>;

fn read(member: &Joined) -> Result<Subscription, Failure> {
    embedded::decode_subscription(&member.metadata)
        .map_err(|error| Failure::Subscription { member_id: member.member_id.clone(), error: error.to_string() })
}

/// Returns all topics that any member subscribes to.
pub(crate) fn topics_of(members: &[Joined]) -> Result<Vec<Arc<str>>, Failure> {
    let mut topics = BTreeSet::new();
    for member in members {
        topics.extend(read(member)?.topics);
    }
    Ok(topics.into_iter().map(Arc::from).collect())
}

/// Plans with an assignor of rota; `None` if the strategy is the application's.
pub(crate) fn plan(
    config: &Config,
    protocol: &str,
    members: &[Joined],
    topics: &BTreeMap<Arc<str>, TopicMetadata>,
) -> Option<Result<Assignments, String>> {
    match config.strategies.iter().find(|strategy| strategy.name() == protocol)? {
        Strategy::BuiltIn(assignor) => Some(built_in(*assignor, members, topics)),
        Strategy::Own { .. } => None,
    }
}

fn built_in(
    assignor: Assignor,
    joined: &[Joined],
    known: &BTreeMap<Arc<str>, TopicMetadata>,
) -> Result<Assignments, String> {
    let subscriptions =
        joined.iter().map(read).collect::<Result<Vec<_>, _>>().map_err(|failure| failure.to_string())?;
    let members: Vec<names::Member<'_>> =
        joined.iter().zip(&subscriptions).map(|(member, subscription)| named(member, subscription)).collect();
    let topics: Vec<names::Topic<'_>> = known
        .iter()
        .map(|(name, topic)| names::Topic {
            name,
            partitions: i64::from(topic.partitions),
            racks: topic.racks.iter().map(|racks| racks.iter().map(String::as_str).collect()).collect(),
        })
        .collect();
    let group = names::Group::new(&members, &topics, assignor).map_err(|error| error.to_string())?;
    let owners = group.assign(assignor, &mut Scratch::default()).map_err(|error| error.to_string())?;
    let arcs: Vec<&Arc<str>> = known.keys().collect();
    let mut shares: Vec<Vec<Partition>> = vec![Vec::new(); joined.len()];
    for (partition, &owner) in owners.iter().enumerate().filter(|(_, owner)| **owner != NOBODY) {
        let (topic, index) = group.locate(partition as u32);
        let place = group.members[owner as usize];
        shares[place].push(Partition::new(arcs[group.topics[topic]].clone(), index as i32));
    }
    joined.iter().zip(&shares).map(|(member, share)| Ok((member.member_id.clone(), encode(share)?))).collect()
}

fn named<'a>(member: &'a Joined, subscription: &'a Subscription) -> names::Member<'a> {
    let owned = subscription.owned_partitions.iter();
    names::Member {
        id: &member.member_id,
        instance_id: member.instance_id.as_deref(),
        topics: subscription.topics.iter().map(String::as_str).collect(),
        owned: owned.flat_map(|one| one.partitions.iter().map(|&index| (one.topic.as_str(), index))).collect(),
        generation: subscription.generation,
        rack: subscription.rack.as_deref(),
        user_data: subscription.user_data.as_deref(),
    }
}

fn encode(share: &[Partition]) -> Result<Vec<u8>, String> {
    let assignment =
        embedded::Assignment { version: embedded::NEWEST_VERSION, partitions: by_topic(share.iter()), user_data: None };
    embedded::encode_assignment(&assignment).map_err(|error| error.to_string())
}
