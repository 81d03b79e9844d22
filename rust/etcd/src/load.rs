//! A load of a partition on an engine that may be slow: a page that does not come in time is asked for again, as a smaller one
//! and with more time, and the pages that are there are kept. A load that began anew whenever a page is late would never
//! end on an engine that is that slow. A page that is too large is asked for again as a smaller one, too.

use std::time::Duration;

use rota_engine::{
    HistoryId,
    requests::{Answer, Content, Read},
};
use tokio::time::{Instant, sleep};

use crate::{
    grpc::{Failure, code},
    keys::Keys,
    proto::{RangeRequest, RangeResponse, TxnRequest, TxnResponse},
    requests::read::{self, FIRST_KEYS},
    txn,
};

/// A page has at most so much time.
const WITHIN_MAX: Duration = Duration::from_secs(30);
/// A load to which nothing has been added for so long ends. The node begins another one.
const PATIENCE: Duration = Duration::from_mins(2);
/// After a failure other than a late answer.
const PAUSE: Duration = Duration::from_millis(100);

/// Where pages come from.
pub trait Pages: Sync {
    /// A transaction, within a time.
    fn txn(&self, request: &TxnRequest, within: Duration) -> impl Future<Output = Result<TxnResponse, Failure>> + Send;
    /// A range, within a time.
    fn range(
        &self,
        request: &RangeRequest,
        within: Duration,
    ) -> impl Future<Output = Result<RangeResponse, Failure>> + Send;
    /// Bytes that have come.
    fn came(&self, bytes: usize);
}

/// How long a page may take, and how long none has come.
struct Pace {
    least: Duration,
    within: Duration,
    since: Instant,
}

impl Pace {
    fn new(least: Duration) -> Pace {
        Pace { least, within: least, since: Instant::now() }
    }

    /// Pages after one that took long have that long, too.
    fn came(&mut self, asked: Instant) {
        self.within = (asked.elapsed() * 2).clamp(self.least, WITHIN_MAX.max(self.least));
        self.since = Instant::now();
    }

    /// Whether a smaller page has to be asked for: the answer is late or too large. Errors: it is final, or nothing has come
    /// for too long.
    async fn failed(&mut self, failure: Failure) -> Result<bool, Failure> {
        if failure.is_final() || self.since.elapsed() > PATIENCE {
            return Err(failure);
        }
        match failure {
            Failure::Timeout => self.within = (self.within * 2).min(WITHIN_MAX.max(self.least)),
            Failure::TooLarge(_) => {}
            _ => {
                sleep(PAUSE).await;
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// Reads a partition; `within`: the time of a page while the engine is quick.
pub async fn load(
    pages: &impl Pages,
    keys: &Keys,
    history: HistoryId,
    request: &Read,
    within: Duration,
) -> Result<Answer, Failure> {
    let mut pace = Pace::new(within);
    let first = answered(pages, &mut pace, |limit| read::transaction(request, keys, history, limit)).await?;
    let mut loading = match read::answer(request, keys, &first)? {
        Ok(loading) => loading,
        Err(meta) => return Ok(Answer { revision: txn::revision(&first)?, content: Content::OtherHistory(meta) }),
    };
    pages.came(loading.bytes());
    while let Some((range, page)) = loading.next_page() {
        let asked = Instant::now();
        match pages.range(&page, pace.within).await {
            Ok(answer) => {
                pace.came(asked);
                loading.add(keys, range, &answer)?;
                pages.came(loading.bytes());
            }
            Err(failure) if is_compacted(&failure) => {
                loading.ask_again(range, &page);
                let present = answered(pages, &mut pace, |_| read::present(request, keys, history)).await?;
                if !loading.go_on_at(&present)? {
                    return Err(failure);
                }
            }
            Err(failure) if pace.failed(failure.clone()).await? => loading.ask_for_less(range, &page),
            Err(_) => loading.ask_again(range, &page),
        }
    }
    Ok(Answer { revision: loading.revision, content: Content::Contents(Box::new(loading.contents)) })
}

/// The answer to a transaction, which is asked for fewer keys each time that it is late or too large.
async fn answered(pages: &impl Pages, pace: &mut Pace, of: impl Fn(i64) -> TxnRequest) -> Result<TxnResponse, Failure> {
    let mut limit = FIRST_KEYS;
    loop {
        let asked = Instant::now();
        match pages.txn(&of(limit), pace.within).await {
            Ok(answer) => {
                pace.came(asked);
                return Ok(answer);
            }
            Err(failure) => limit = if pace.failed(failure).await? { (limit / 2).max(1) } else { limit },
        }
    }
}

/// The revision of the pages is forgotten.
fn is_compacted(failure: &Failure) -> bool {
    matches!(failure, Failure::Status { code: code::OUT_OF_RANGE, .. })
}

#[cfg(test)]
mod tests {
    use std::{
        collections::BTreeMap,
        sync::atomic::{AtomicI64, AtomicUsize, Ordering},
    };

    use bytes::Bytes;
    use rota_engine::{Entry, Epoch, Incarnation, NodeId, Nonce, Part, PartitionId, requests::Contents};

    use super::*;
    use crate::{
        grpc::ANSWER_BYTES_MAX,
        proto::{KeyValue, Op, OpAnswer, ResponseHeader, ResponseOp},
        values::Value,
    };

    const P: PartitionId = PartitionId(3);
    const HISTORY: HistoryId = HistoryId(7);
    const ENTRY_BYTES: usize = 200_000;
    const SECOND: Duration = Duration::from_secs(1);

    /// An engine whose answers come byte by byte, and which forgets revisions.
    struct Slow {
        keys: Keys,
        content: BTreeMap<Bytes, Bytes>,
        bytes_per_second: usize,
        /// So many ranges find their revision compacted.
        compactions: AtomicUsize,
        revision: AtomicI64,
        /// Requests that were too slow, and all.
        late: AtomicUsize,
        /// Requests whose answers were too large.
        large: AtomicUsize,
        asked: AtomicUsize,
    }

    impl Slow {
        fn new(entries: usize, bytes_per_second: usize) -> Slow {
            Slow { bytes_per_second, ..Slow::of(&vec![ENTRY_BYTES; entries]) }
        }

        /// With entries of these sizes, and not slow.
        fn of(sizes: &[usize]) -> Slow {
            let keys = Keys::new("/rota");
            let mut content = BTreeMap::new();
            let part = Part { epoch: Epoch(4), node: NodeId(1), incarnation: Incarnation(9), held: true };
            content.insert(keys.part(P), part.encode());
            for (at, bytes) in (0..).zip(sizes) {
                let bytes = vec![at as u8; *bytes];
                let entry = Entry { nonce: Nonce(at as u128), epoch: Epoch(4), count: 1, bytes };
                content.insert(keys.entry(P, at), entry.encode());
            }
            let (late, large, asked) = (AtomicUsize::new(0), AtomicUsize::new(0), AtomicUsize::new(0));
            let (compactions, revision) = (AtomicUsize::new(0), AtomicI64::new(50));
            Slow { keys, content, bytes_per_second: 1 << 30, compactions, revision, late, large, asked }
        }

        fn page(&self, of: &RangeRequest) -> RangeResponse {
            let end = if of.range_end.is_empty() { [&of.key[..], &[0]].concat().into() } else { of.range_end.clone() };
            let found = self.content.range(of.key.clone()..end);
            let mut kvs: Vec<KeyValue> = found
                .map(|(key, value)| KeyValue { key: key.clone(), mod_revision: 5, value: value.clone() })
                .collect();
            let limit = if of.limit == 0 { usize::MAX } else { of.limit as usize };
            let more = kvs.len() > limit;
            kvs.truncate(limit);
            RangeResponse { header: None, kvs, more }
        }

        /// The answer comes if there is time for its bytes.
        async fn answer<T>(&self, answer: T, bytes: usize, within: Duration) -> Result<T, Failure> {
            self.asked.fetch_add(1, Ordering::Relaxed);
            if bytes > ANSWER_BYTES_MAX {
                self.large.fetch_add(1, Ordering::Relaxed);
                return Err(Failure::TooLarge(bytes));
            }
            let takes = Duration::from_micros((bytes * 1_000_000 / self.bytes_per_second) as u64);
            sleep(takes.min(within)).await;
            if takes > within {
                self.late.fetch_add(1, Ordering::Relaxed);
                return Err(Failure::Timeout);
            }
            Ok(answer)
        }

        async fn load(&self) -> Result<Contents, Failure> {
            match load(self, &self.keys, HISTORY, &Read { partition: P }, SECOND).await?.content {
                Content::Contents(contents) => Ok(*contents),
                other => panic!("{other:?}"),
            }
        }
    }

    fn bytes_of(page: &RangeResponse) -> usize {
        page.kvs.iter().map(|kv| kv.value.len()).sum()
    }

    impl Pages for Slow {
        async fn txn(&self, request: &TxnRequest, within: Duration) -> Result<TxnResponse, Failure> {
            let pages = request.success.iter().map(|op| match &op.request {
                Some(Op::Range(range)) => self.page(range),
                _ => panic!("a load writes nothing"),
            });
            let pages: Vec<RangeResponse> = pages.collect();
            let bytes = pages.iter().map(bytes_of).sum();
            let header =
                ResponseHeader { revision: self.revision.load(Ordering::Relaxed), ..ResponseHeader::default() };
            let responses =
                pages.into_iter().map(|page| ResponseOp { response: Some(OpAnswer::Range(page)) }).collect();
            self.answer(TxnResponse { header: Some(header), succeeded: true, responses }, bytes, within).await
        }

        async fn range(&self, request: &RangeRequest, within: Duration) -> Result<RangeResponse, Failure> {
            let is_compacted = |left: usize| left.checked_sub(1);
            if self.compactions.fetch_update(Ordering::Relaxed, Ordering::Relaxed, is_compacted).is_ok() {
                self.revision.fetch_add(1, Ordering::Relaxed);
                let message = "etcdserver: mvcc: required revision has been compacted".to_owned();
                return Err(Failure::Status { code: code::OUT_OF_RANGE, message });
            }
            let page = self.page(request);
            let bytes = bytes_of(&page);
            self.answer(page, bytes, within).await
        }

        fn came(&self, _bytes: usize) {}
    }

    #[tokio::test(start_paused = true)]
    async fn a_load_on_an_engine_that_needs_seconds_for_an_entry_ends() {
        let slow = Slow::new(60, ENTRY_BYTES / 3);
        let began = Instant::now();
        let contents = slow.load().await.expect("it ends");
        assert_eq!(contents.log.entries.len(), 60);
        assert_eq!(contents.log.end(), Ok(60));
        // At the engine's speed it takes three seconds an entry; what comes too late is little beside it.
        assert!(began.elapsed() < 60 * 3 * SECOND * 2, "{:?}", began.elapsed());
        let (late, asked) = (slow.late.load(Ordering::Relaxed), slow.asked.load(Ordering::Relaxed));
        assert!((1..10).contains(&late), "{late} of {asked} pages were late");
    }

    #[tokio::test(start_paused = true)]
    async fn a_load_on_a_quick_engine_asks_for_few_pages() {
        let slow = Slow::new(60, 100 << 20);
        assert_eq!(slow.load().await.expect("it ends").log.entries.len(), 60);
        assert_eq!((slow.late.load(Ordering::Relaxed), slow.asked.load(Ordering::Relaxed)), (0, 4));
    }

    #[tokio::test(start_paused = true)]
    async fn a_load_whose_pages_are_too_large_asks_for_smaller_ones() {
        // After pages of small entries the engine is asked for many, and there are large ones.
        let slow = Slow::of(&[&[1; 100][..], &[1 << 20; 200]].concat());
        assert_eq!(slow.load().await.expect("it ends").log.end(), Ok(300));
        let (large, asked) = (slow.large.load(Ordering::Relaxed), slow.asked.load(Ordering::Relaxed));
        assert!((1..=4).contains(&large), "{large} of {asked} pages were too large");
    }

    #[tokio::test(start_paused = true)]
    async fn a_page_has_at_most_eight_times_the_entries_of_the_one_before() {
        let slow = Slow::of(&[&[100; 8][..], &[900 << 10; 76]].concat());
        assert_eq!(slow.load().await.expect("it ends").log.end(), Ok(84));
        assert_eq!(slow.large.load(Ordering::Relaxed), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn a_load_that_outlives_its_revision_goes_on_at_a_later_one() {
        let slow = Slow::new(60, 100 << 20);
        slow.compactions.store(2, Ordering::Relaxed);
        assert_eq!(slow.load().await.expect("it ends").log.end(), Ok(60));
        assert_eq!(slow.revision.load(Ordering::Relaxed), 52);
    }

    #[tokio::test(start_paused = true)]
    async fn pages_of_two_owners_are_no_load() {
        let slow = Slow::new(60, 100 << 20);
        let first = read::transaction(&Read { partition: P }, &slow.keys, HISTORY, 1);
        let first = slow.txn(&first, SECOND).await.expect("it answers");
        let present = read::present(&Read { partition: P }, &slow.keys, HISTORY);
        let loading = |answer: &TxnResponse| read::answer(&Read { partition: P }, &slow.keys, answer);
        let mut loading = loading(&first).expect("well-formed").expect("the same history");
        let mut same = slow.txn(&present, SECOND).await.expect("it answers");
        assert_eq!(loading.go_on_at(&same), Ok(true));
        if let Some(OpAnswer::Range(owner)) = &mut same.responses[0].response {
            let part = Part { epoch: Epoch(5), node: NodeId(2), incarnation: Incarnation(3), held: true };
            owner.kvs[0].value = part.encode();
        }
        assert_eq!(loading.go_on_at(&same), Ok(false));
    }

    #[tokio::test(start_paused = true)]
    async fn a_load_of_an_engine_that_is_away_ends() {
        let slow = Slow::new(1, 1);
        assert_eq!(slow.load().await.err(), Some(Failure::Timeout));
    }
}
