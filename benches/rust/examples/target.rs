//! The target of one consumer group, computed by the core once for each line on stdin: `target ASSIGNOR TOPICS PARTITIONS
//! MEMBERS PERCENT LEAVES`, of the same group as `assign` and the Java program of `tests/assign/java`; all members
//! subscribe to all topics, so PERCENT is 100. Answers with nanoseconds, from the group to the records of its new target;
//! the line `figures` is answered with min load, max load, sum of squared loads and partitions kept.

use std::{
    collections::BTreeMap, collections::BTreeSet, error::Error, hint::black_box, io::BufRead, sync::Arc, time::Instant,
};

use rota_core::{
    consumer_group::{
        group::ConsumerGroup,
        topics::{TopicMetadata, Topics},
    },
    records::{ConsumerRecord, EpochValue, SubscriptionValue, TopicIndexes},
};

const WALL_MS: i64 = 1_700_000_000_000;

type Plan = BTreeMap<Arc<str>, BTreeSet<(u128, i32)>>;

fn subscription(topic_names: &[Arc<str>], assignor: &str) -> SubscriptionValue {
    SubscriptionValue {
        instance_id: None,
        rack_id: None,
        client_id: "rota-bench".into(),
        client_host: "/127.0.0.1".into(),
        topic_names: topic_names.to_vec(),
        topic_regex: None,
        rebalance_timeout_ms: 60_000,
        server_assignor: Some(assignor.into()),
        classic: None,
    }
}

fn targets(group: &ConsumerGroup) -> Plan {
    group.members().map(|(id, member, _)| (Arc::clone(id), member.target.clone().unwrap_or_default())).collect()
}

/// Min load, max load, sum of squared loads, and what members keep of the targets in `before`.
fn figures(before: &Plan, records: &[ConsumerRecord]) -> String {
    let mut after = before.clone();
    for record in records {
        if let ConsumerRecord::Target(id, Some(topics)) = record {
            let pairs = |topic: &TopicIndexes| -> Vec<(u128, i32)> {
                topic.partitions.iter().map(|partition| (topic.topic_id, *partition)).collect()
            };
            after.insert(Arc::clone(id), topics.iter().flat_map(pairs).collect());
        }
    }
    let loads: Vec<u64> = after.values().map(|held| held.len() as u64).collect();
    let kept: usize =
        after.iter().map(|(id, held)| before.get(id).map_or(0, |had| held.intersection(had).count())).sum();
    let squares: u64 = loads.iter().map(|load| load * load).sum();
    let (min, max) = (loads.iter().min().copied().unwrap_or(0), loads.iter().max().copied().unwrap_or(0));
    format!("{min} {max} {squares} {kept}")
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let assignor = if arguments[0] == "server_range" { "range" } else { arguments[0].as_str() };
    let (count, partitions, members) =
        (arguments[1].parse::<u128>()?, arguments[2].parse()?, arguments[3].parse::<u32>()?);
    let names: Vec<Arc<str>> = (0..count).map(|at| format!("topic-{at:06}").into()).collect();
    let mut topics = Topics::default();
    for (topic_id, name) in (1..).zip(&names) {
        topics.insert(TopicMetadata { name: Arc::clone(name), topic_id, partitions, racks: Vec::new() });
    }
    let mut group = ConsumerGroup::new("group".into());
    let ids: Vec<Arc<str>> = (0..members).map(|at| format!("member-{at:06}").into()).collect();
    for id in &ids {
        group.apply(&ConsumerRecord::Member(Arc::clone(id), Some(Box::new(subscription(&names, assignor)))));
    }
    group.apply(&ConsumerRecord::Epoch(Some(EpochValue { epoch: 2, metadata_hash: 0 })));
    let compute = |group: &ConsumerGroup| group.compute_target(&topics, WALL_MS).map_err(|error| format!("{error:?}"));
    if arguments[5] == "1" {
        for record in compute(&group)? {
            group.apply(&record);
        }
        let last = ids.last().ok_or("a group has members")?;
        group.apply(&ConsumerRecord::Target(Arc::clone(last), None));
        group.apply(&ConsumerRecord::Member(Arc::clone(last), None));
        group.apply(&ConsumerRecord::Epoch(Some(EpochValue { epoch: 3, metadata_hash: 0 })));
    }
    let before = targets(&group);
    for line in std::io::stdin().lock().lines() {
        let began = Instant::now();
        let records = compute(&group)?;
        let took = began.elapsed().as_nanos();
        black_box(&records);
        if line? == "figures" {
            println!("{}", figures(&before, &records));
        } else {
            println!("{took}");
        }
    }
    Ok(())
}
