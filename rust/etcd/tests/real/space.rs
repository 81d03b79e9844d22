//! etcd's space: what is used up, what works then, and what gives space back.

use rota_engine::{
    Body, Outcome, Request, SnapshotHead, checksum,
    requests::{
        Append, Content, Fence, HeadPut, NotePut, PutChunk, PutHead, PutNote, Sweep, Trim, Usage, append::Verdict,
    },
};
use rota_etcd::{Alarm, EtcdEngine};

use crate::{
    engines::{open, run},
    etcd::Etcd,
    members::{Owner, PARTITION, call},
};

const QUOTA_BYTES: u64 = 16 << 20;
const CHUNK_BYTES: usize = 256 << 10;

/// Writes chunks that no head names until etcd has no space.
async fn fill(owner: &Owner<EtcdEngine>) -> u32 {
    for index in 0.. {
        let (token, bytes) = (owner.token, vec![index as u8; CHUNK_BYTES]);
        let chunk = PutChunk { partition: PARTITION, token, upto: 1, index, bytes };
        let request = Request { history: owner.history, body: Body::Chunk(chunk) };
        match owner.engine.call(&request).await {
            Outcome::Answered(_) => {}
            Outcome::SpaceExhausted => return index,
            Outcome::Unknown => panic!("{:?}", owner.engine.trouble()),
        }
        assert!(u64::from(index) * (CHUNK_BYTES as u64) < 4 * QUOTA_BYTES, "etcd does not mind its quota");
    }
    unreachable!("the loop returns")
}

async fn file_bytes(owner: &Owner<EtcdEngine>) -> u64 {
    let Content::Used(used) = call(&owner.engine, owner.history, Body::Usage(Usage)).await else { panic!("no usage") };
    assert!(used.live_bytes <= used.file_bytes);
    used.file_bytes
}

async fn revision(engine: &EtcdEngine, owner: &Owner<EtcdEngine>) -> rota_engine::Revision {
    let request = Request { history: owner.history, body: Body::Usage(Usage) };
    match engine.call(&request).await {
        Outcome::Answered(answer) => answer.revision,
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_quota_of_an_etcd_that_does_not_say_it_is_that_of_the_url_or_unknown() {
    run(|| async {
        let etcd = Etcd::start(1, &["--quota-backend-bytes", &QUOTA_BYTES.to_string()]);
        for of_url in [0, QUOTA_BYTES] {
            let mut config = etcd.config();
            config.quota_bytes = of_url;
            let engine = open(&config).await;
            let status = engine.members().await.remove(0).status.expect("the member answers");
            let says_quota = status.version.starts_with("3.6.") || status.version.starts_with("3.7.");
            let expected = if says_quota { QUOTA_BYTES } else { of_url };
            assert_eq!(status.used.quota_bytes, expected, "{}", status.version);
        }
    });
}

#[test]
fn a_full_engine_deletes_and_gets_space_back() {
    run(|| async {
        let etcd = Etcd::start(1, &["--quota-backend-bytes", &QUOTA_BYTES.to_string()]);
        let mut owner = Owner::new(etcd.engine().await).await;
        owner.append_many(3).await;
        // A snapshot of the first two entries, whose entries were not deleted with it: the space ran out.
        let chunk = vec![1, 2, 3];
        let head = SnapshotHead { upto: 2, epoch: owner.token.epoch, chunks: 1, checksum: checksum([&chunk]) };
        let put = PutChunk { partition: PARTITION, token: owner.token, upto: 2, index: 0, bytes: chunk };
        assert_eq!(call(&owner.engine, owner.history, Body::Chunk(put)).await, Content::Fence(Fence::Held));
        let prev = owner.next_append(1).prev;
        let put = PutHead { partition: PARTITION, token: owner.token, replaces: None, prev, head };
        assert_eq!(call(&owner.engine, owner.history, Body::Head(put)).await, Content::HeadPut(HeadPut::Written));

        assert!(fill(&owner).await > 3);
        let append: Append = owner.next_append(100);
        let request = Request { history: owner.history, body: Body::Append(append.clone()) };
        assert_eq!(owner.engine.append_all(0, std::slice::from_ref(&request)).await, [Outcome::SpaceExhausted]);
        assert_eq!(owner.engine.call(&request).await, Outcome::SpaceExhausted);
        assert!(owner.engine.trouble().is_some_and(|trouble| trouble.contains("space exceeded")));
        let alarms = owner.engine.alarms().await.expect("alarms");
        assert!(alarms.iter().any(|(_, alarm)| *alarm == Alarm::NoSpace), "{alarms:?}");

        // Deletes work, and so does what makes nothing grow.
        let note = PutNote { name: "plan".to_owned(), seen: None, value: Some(vec![1]) };
        assert_eq!(call(&owner.engine, owner.history, Body::Note(note)).await, Content::NotePut(NotePut::Written));
        let trim = Body::Trim(Trim { partition: PARTITION, token: owner.token });
        assert_eq!(call(&owner.engine, owner.history, trim).await, Content::Fence(Fence::Held));
        let sweep = Body::Sweep(Sweep { partition: PARTITION, token: owner.token, keep: head });
        assert_eq!(call(&owner.engine, owner.history, sweep).await, Content::Fence(Fence::Held));
        let full = file_bytes(&owner).await;
        assert!(full >= QUOTA_BYTES / 2, "{full}");

        let mut told = Vec::new();
        let now = revision(&owner.engine, &owner).await;
        owner.engine.mend(now, |step| told.push(step.to_owned())).await.expect("the engine has space again");
        assert_eq!(told.len(), 3, "{told:?}");
        assert!(file_bytes(&owner).await < full / 2);
        assert_eq!(owner.engine.alarms().await.expect("alarms"), []);
        let verdict = owner.settle(append).await;
        assert!(matches!(verdict, Verdict::Applied(_)), "{verdict:?}");
        owner.append_many(3).await;
        assert_eq!(owner.check().await.entries.len(), 5);
    });
}

#[test]
fn an_entry_above_the_limit_has_no_answer() {
    run(|| async {
        let etcd = Etcd::start(1, &[]);
        let mut owner = Owner::new(etcd.engine().await).await;
        owner.append_many(1).await;
        let request = Request { history: owner.history, body: Body::Append(owner.next_append(1_700_000)) };
        assert_eq!(owner.engine.append_all(0, &[request]).await, [Outcome::Unknown]);
        assert!(owner.engine.trouble().is_some_and(|trouble| trouble.contains("too large")));
        owner.append_many(1).await;
        owner.check().await;
    });
}

#[test]
fn a_log_of_many_pages_is_loaded_as_a_whole() {
    run(|| async {
        let etcd = Etcd::start(1, &[]);
        let mut owner = Owner::new(etcd.engine().await).await;
        for index in 0..40 {
            let verdict = owner.append(if index % 10 == 0 { 900_000 } else { 10 }).await;
            assert!(matches!(verdict, Verdict::Applied(_)), "{verdict:?}");
        }
        let log = owner.check().await;
        assert_eq!(log.entries.values().map(|entry| entry.value.bytes.len()).sum::<usize>(), 4 * 900_000 + 36 * 10);
    });
}
