//! Faults on demand, around any log: appends that are held back, fail, end late or in another order, whose answer is
//! lost, that are stored twice, or that are fenced on their way. Without these the code that runs while an append is in
//! flight would hardly ever run. Tests, the server's controls and the simulator use the same.
//!
//! While no fault is asked for, an append costs a look at a flag.

use std::{
    collections::VecDeque,
    fmt, mem,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
        mpsc::{Sender, channel},
    },
};

use crate::{
    completions::Completions,
    error::LogError,
    fenced::{Append, Completion, FencedLog, RecordInPlace},
};

/// What happens to one append on its way to the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It is not stored and fails with this error.
    Fail(LogError),
    /// It is stored, but its answer is lost: the caller gets this error, which it cannot tell from [`Fault::Fail`].
    LoseAnswer(LogError),
    /// It reaches the log twice, as when a client of the log repeats a request whose answer it missed. The caller gets
    /// the first completion.
    Duplicate,
    /// The next epoch opens the partition before the append arrives, though no server owns it under that epoch.
    Fence,
}

/// An append that waits until it is released.
struct Held<B> {
    append: Append<B>,
    to: Arc<Completions>,
}

/// See the module.
pub struct FaultyLog<B> {
    inner: Arc<dyn FencedLog<B> + Send + Sync>,
    /// Appends look at `state`.
    is_active: AtomicBool,
    state: Mutex<State<B>>,
    late: Arc<Late>,
}

struct State<B> {
    is_held: bool,
    held: VecDeque<Held<B>>,
    /// Opens that are held back.
    opens: Option<Vec<(i32, i32, Arc<Completions>)>>,
    /// What happens to the next appends that go to the log, and to how many of them.
    faults: VecDeque<(Fault, u64)>,
    /// The state of the generator that picks which partition's oldest held append is released next.
    reorder: Option<u64>,
}

/// Completions that are delivered late.
struct Late {
    now_ms: Box<dyn Fn() -> u64 + Send + Sync>,
    delay_ms: AtomicU64,
    count: AtomicUsize,
    /// When, what and where to, in the order in which they came.
    waiting: Mutex<Vec<(u64, Completion, Arc<Completions>)>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Late {
    fn deliver(&self, completion: Completion, to: &Arc<Completions>) {
        let delay_ms = self.delay_ms.load(Ordering::Relaxed);
        if delay_ms == 0 {
            return to.put([completion]);
        }
        let due_ms = (self.now_ms)().saturating_add(delay_ms);
        let mut waiting = lock(&self.waiting);
        waiting.push((due_ms, completion, Arc::clone(to)));
        self.count.store(waiting.len(), Ordering::Relaxed);
        drop(waiting);
        // The owner has to learn when it is due.
        to.wake();
    }
}

impl<B> fmt::Debug for FaultyLog<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = lock(&self.state);
        write!(f, "FaultyLog({} held, {} kinds of faults to come)", state.held.len(), state.faults.len())
    }
}

impl<B: Clone + 'static> FaultyLog<B> {
    /// Around `inner`, without faults. `now_ms` is the clock that delays are measured on, in monotonic milliseconds.
    pub fn new(
        inner: Arc<dyn FencedLog<B> + Send + Sync>,
        now_ms: impl Fn() -> u64 + Send + Sync + 'static,
    ) -> FaultyLog<B> {
        let late = Late {
            now_ms: Box::new(now_ms),
            delay_ms: AtomicU64::new(0),
            count: AtomicUsize::new(0),
            waiting: Mutex::default(),
        };
        let state =
            State { is_held: false, held: VecDeque::new(), opens: None, faults: VecDeque::new(), reorder: None };
        FaultyLog { inner, is_active: AtomicBool::new(false), state: Mutex::new(state), late: Arc::new(late) }
    }

    fn update(&self, change: impl FnOnce(&mut State<B>)) {
        let mut state = lock(&self.state);
        change(&mut state);
        self.look_at(&state);
    }

    /// With the lock: an append that does not see the faults any more comes behind those that they held back.
    fn look_at(&self, state: &State<B>) {
        let is_delayed = self.late.delay_ms.load(Ordering::Relaxed) > 0;
        let is_active = state.is_held || !state.held.is_empty() || !state.faults.is_empty() || is_delayed;
        self.is_active.store(is_active, Ordering::Release);
    }

    /// From here on appends wait until they are released.
    pub fn hold(&self) {
        self.update(|state| state.is_held = true);
    }

    /// Lets up to `n` held appends go to the log, oldest first (see [`FaultyLog::reorder`]); later ones stay held.
    /// Returns how many, when they have ended.
    pub fn release(&self, n: usize) -> usize {
        self.release_where(None, n, |_| ())
    }

    /// As [`FaultyLog::release`], of one partition only.
    pub fn release_partition(&self, partition: i32, n: usize) -> usize {
        self.release_where(Some(partition), n, |_| ())
    }

    /// Stops holding and lets everything go that was held back. Returns how many appends, when they have ended.
    pub fn release_all(&self) -> usize {
        self.release_where(None, usize::MAX, |state| state.is_held = false)
    }

    fn release_where(&self, only: Option<i32>, n: usize, change: impl FnOnce(&mut State<B>)) -> usize {
        let (ended, ends) = channel();
        let mut released = 0;
        self.update(|state| {
            change(state);
            while released < n
                && let Some(Held { append, to }) = state.take_next(only)
            {
                released += 1;
                self.give(state, append, &to, Some(&ended));
            }
        });
        for _ in 0..released {
            // The log completes everything that it was given.
            let _ended = ends.recv();
        }
        released
    }

    /// `fault` strikes the next `times` appends that go to the log; asked again, those after them. A held append goes
    /// when it is released.
    pub fn strike(&self, fault: Fault, times: u64) {
        if times > 0 {
            self.update(|state| state.faults.push_back((fault, times)));
        }
    }

    /// Nothing strikes the next appends any more.
    pub fn forget_faults(&self) {
        self.update(|state| state.faults.clear());
    }

    /// From here on completions of appends are delivered so many milliseconds after they came.
    pub fn delay(&self, delay_ms: u64) {
        self.late.delay_ms.store(delay_ms, Ordering::Relaxed);
        self.update(|_| ());
    }

    /// Delivers the late completions that are due. Whose owners have to call this at [`FaultyLog::next_due`].
    pub fn deliver_due(&self) {
        if self.late.count.load(Ordering::Relaxed) == 0 {
            return;
        }
        let now_ms = (self.late.now_ms)();
        let mut waiting = lock(&self.late.waiting);
        let (due, rest) = mem::take(&mut *waiting).into_iter().partition(|(due_ms, ..)| *due_ms <= now_ms);
        *waiting = rest;
        self.late.count.store(waiting.len(), Ordering::Relaxed);
        drop(waiting);
        let due: Vec<(u64, Completion, Arc<Completions>)> = due;
        for (_, completion, to) in due {
            to.put([completion]);
        }
    }

    /// When the next late completion for `to` is due, in monotonic milliseconds.
    pub fn next_due(&self, to: &Arc<Completions>) -> Option<u64> {
        if self.late.count.load(Ordering::Relaxed) == 0 {
            return None;
        }
        let waiting = lock(&self.late.waiting);
        waiting.iter().filter(|(_, _, owner)| Arc::ptr_eq(owner, to)).map(|(due_ms, ..)| *due_ms).min()
    }

    /// `Some(seed)`: held appends of different partitions are released in an order drawn from `seed`, those of one
    /// partition in theirs. `None`: all in the order of their appends.
    pub fn reorder(&self, seed: Option<u64>) {
        self.update(|state| state.reorder = seed);
    }

    /// From here on opens wait for [`FaultyLog::release_opens`], as on a log that is far away.
    pub fn hold_opens(&self) {
        self.update(|state| state.opens = Some(state.opens.take().unwrap_or_default()));
    }

    /// Opens go to the log again, those that were held back first. Returns how many those are.
    pub fn release_opens(&self) -> usize {
        let opens = lock(&self.state).opens.take().unwrap_or_default();
        for (partition, epoch, to) in &opens {
            self.inner.open(*partition, *epoch, to);
        }
        opens.len()
    }

    /// Whether opens are held back.
    pub fn holds_opens(&self) -> bool {
        lock(&self.state).opens.is_some()
    }

    /// Appends that are held back.
    pub fn held(&self) -> usize {
        lock(&self.state).held.len()
    }

    /// The power fails: the oldest `survivors` held appends are stored though their callers do not learn it, the
    /// others are gone, and so are late completions and all faults. Partitions have to be opened under newer epochs.
    pub fn crash(&self, survivors: usize) {
        let unheard = Completions::relay(drop);
        self.update(|state| state.held.iter_mut().for_each(|held| held.to = Arc::clone(&unheard)));
        self.release(survivors);
        lock(&self.late.waiting).clear();
        self.late.count.store(0, Ordering::Relaxed);
        self.late.delay_ms.store(0, Ordering::Relaxed);
        self.update(|state| {
            state.held.clear();
            state.faults.clear();
            state.is_held = false;
        });
    }

    /// Gives an append to the log, behind all that were given before: the caller has the lock. `ended` gets a word
    /// when the log has answered.
    fn give(&self, state: &mut State<B>, append: Append<B>, to: &Arc<Completions>, ended: Option<&Sender<()>>) {
        let fault = state.take_fault();
        let mut told_instead = None;
        match fault {
            Some(Fault::Fail(error)) => {
                self.late.deliver(append.completion(Err(error)), to);
                // The caller that released it waits as for any other.
                let _nobody = ended.map(|ended| ended.send(()));
                return;
            }
            Some(Fault::LoseAnswer(ref error)) => told_instead = Some(error.clone()),
            Some(Fault::Fence) => {
                self.inner.open(append.partition, append.epoch + 1, &Completions::relay(drop));
            }
            Some(Fault::Duplicate) | None => {}
        }
        let again = (fault == Some(Fault::Duplicate)).then(|| append.clone());
        if told_instead.is_none() && ended.is_none() && self.late.delay_ms.load(Ordering::Relaxed) == 0 {
            self.inner.append(append, to);
        } else {
            let (late, to, ended) = (Arc::clone(&self.late), Arc::clone(to), ended.cloned());
            let relay = Completions::relay(move |completion| {
                let result = told_instead.clone().map_or(completion.result, Err);
                late.deliver(Completion { result, ..completion }, &to);
                // As above.
                let _nobody = ended.as_ref().map(|ended| ended.send(()));
            });
            self.inner.append(append, &relay);
        }
        if let Some(again) = again {
            self.inner.append(again, &Completions::relay(drop));
        }
    }
}

impl<B> State<B> {
    /// The held append that goes next (of `only`, if given): never one behind another of its partition.
    fn take_next(&mut self, only: Option<i32>) -> Option<Held<B>> {
        let at = match (self.reorder.as_mut(), only) {
            (Some(state), None) => {
                let mut heads: Vec<(i32, usize)> = Vec::new();
                for (at, held) in self.held.iter().enumerate() {
                    if heads.iter().all(|(partition, _)| *partition != held.append.partition) {
                        heads.push((held.append.partition, at));
                    }
                }
                let count = heads.len() as u64;
                (count > 0).then(|| heads[(next_random(state) % count) as usize].1)?
            }
            (_, None) => 0,
            (_, Some(only)) => self.held.iter().position(|held| held.append.partition == only)?,
        };
        self.held.remove(at)
    }

    fn take_fault(&mut self) -> Option<Fault> {
        let (fault, times) = self.faults.front_mut()?;
        let fault = fault.clone();
        *times -= 1;
        if *times == 0 {
            self.faults.pop_front();
        }
        Some(fault)
    }
}

impl<B: Clone + 'static> FencedLog<B> for FaultyLog<B> {
    /// Held appends of older epochs are refused when they are released.
    fn open(&self, partition: i32, epoch: i32, to: &Arc<Completions>) {
        if let Some(opens) = &mut lock(&self.state).opens {
            return opens.push((partition, epoch, Arc::clone(to)));
        }
        self.inner.open(partition, epoch, to);
    }

    fn append(&self, append: Append<B>, to: &Arc<Completions>) {
        if !self.is_active.load(Ordering::Acquire) {
            return self.inner.append(append, to);
        }
        self.update(|state| {
            if state.is_held {
                state.held.push_back(Held { append, to: Arc::clone(to) });
            } else {
                self.give(state, append, to, None);
            }
        });
    }

    fn read(&self, partition: i32, from: i64, visit: &mut dyn FnMut(RecordInPlace<'_>)) -> Result<i64, LogError> {
        self.inner.read(partition, from, visit)
    }

    fn end(&self, partition: i32) -> Result<i64, LogError> {
        self.inner.end(partition)
    }

    fn size_bytes(&self, partition: i32) -> u64 {
        self.inner.size_bytes(partition)
    }
}

/// Splitmix64: small, well mixed, the same everywhere.
fn next_random(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut mixed = *state;
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}
