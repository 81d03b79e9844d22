//! Plays the steps of a transcript to a coordinator, in virtual time.

use std::collections::{BTreeMap, BTreeSet};

use rota_core::{
    AppendId, Config, Coordinator, Entropy, ErrorCode, LogEntry, Now, Record, Sink, Ticket, response::Answer,
};

use crate::{
    cast::{Cast, Success, duration_ms, duration_text},
    render::{self, Line},
    requests::{self, WALL_EPOCH_MS},
    text::Step,
};

const DEADLINES_AT_ONE_INSTANT_MAX: u32 = 100;

/// Odd: distinct, deterministic, no bit constant.
const SPREAD: u128 = 0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835;

/// What an answer to `JoinGroup` tells its actor, besides the line.
struct Taught {
    error: ErrorCode,
    member_id: String,
    generation: i32,
    told: (Option<String>, Option<String>),
}

enum Effect {
    Answer { ticket: u64, api: &'static str, line: Line, taught: Option<Taught> },
    Append { append_id: AppendId, records: u64, line: Line },
}

/// One step's effects. An answer is lost on its way if that is wanted.
struct Effects {
    all: Vec<Effect>,
    answers_until_loss: Option<usize>,
}

impl Sink for Effects {
    fn answer(&mut self, ticket: Ticket, answer: Answer<'_>) {
        if self.answers_until_loss == Some(0) {
            self.answers_until_loss = None;
            return;
        }
        self.answers_until_loss = self.answers_until_loss.map(|left| left - 1);
        let taught = match &answer {
            Answer::JoinGroup(join) => Some(Taught {
                error: join.error,
                member_id: join.member_id.to_owned(),
                generation: join.generation,
                told: (join.protocol_type.map(str::to_owned), join.protocol_name.map(str::to_owned)),
            }),
            _ => None,
        };
        let line = render::answer(&answer);
        self.all.push(Effect::Answer { ticket: ticket.0, api: answer.name(), line, taught });
    }

    fn append(&mut self, append_id: AppendId, records: &[Record]) {
        let line = render::append(records);
        self.all.push(Effect::Append { append_id, records: records.len() as u64, line });
    }
}

/// One run in progress.
pub struct Player {
    core: Coordinator,
    pub cast: Cast,
    now_ms: u64,
    /// (connection, api) of whatever has no answer yet.
    tickets: BTreeMap<u64, (String, &'static str)>,
    answered: BTreeSet<u64>,
    next_ticket: u64,
    /// With the offset that the batch gets.
    in_flight: Vec<(AppendId, u64)>,
    next_offset: u64,
    answers_until_loss: Option<usize>,
}

impl Player {
    /// `loses`: this answer, counted from 0, does not arrive.
    pub fn new(config: Config, is_loading: bool, loses: Option<usize>) -> Success<Player> {
        let mut player = Player {
            core: Coordinator::new(config, 0, 0),
            cast: Cast::default(),
            now_ms: 0,
            tickets: BTreeMap::new(),
            answered: BTreeSet::new(),
            next_ticket: 0,
            in_flight: Vec::new(),
            next_offset: 0,
            answers_until_loss: loses,
        };
        if !is_loading && !player.loaded()?.is_empty() {
            return Err("loading an empty log has an effect".to_owned());
        }
        Ok(player)
    }

    /// The effects of one step, as lines.
    pub fn play(&mut self, step: &Step) -> Success<Vec<String>> {
        let words: Vec<&str> = step.text.split_whitespace().collect();
        let [word, rest @ ..] = &words[..] else { return Err("an empty step".to_owned()) };
        let lines = match (*word, rest) {
            ("member", _) => requests::declare_member(&mut self.cast, rest).map(|()| Vec::new())?,
            ("stored" | "refused", _) => self.end_append(word, rest)?,
            ("explain", _) => self.explain(rest.first().unwrap_or(&"g")),
            ("replay", _) => {
                let record = requests::build_record(&mut self.cast, rest, self.now_ms)?;
                let entry = LogEntry { offset: self.next_offset, timestamp_ms: 0, record };
                self.next_offset += 1;
                self.core.replay(&entry);
                return Ok(Vec::new());
            }
            ("loaded", []) => self.loaded()?,
            ("forget", _) => self.shown(|core, now, sink| core.topics_deleted(rest, now, sink))?,
            ("unload", []) => {
                let lines = self.unload()?;
                self.in_flight.clear();
                lines
            }
            (_, []) => match word.strip_prefix('+') {
                Some(span) => self.pass_time(duration_ms(span)? as u64)?,
                None => return Err(format!("`{word}` is no step")),
            },
            (connection, [api, options @ ..]) => self.request(connection, api, options)?,
        };
        self.check()?;
        Ok(lines)
    }

    /// Unloads: each waiting request gets `NOT_COORDINATOR`, and then none waits (S18).
    pub fn finish(&mut self) -> Success<()> {
        if let Some(line) = self.unload()?.iter().find(|line| !line.contains("NOT_COORDINATOR")) {
            return Err(format!("unloading at the end gave `{line}`"));
        }
        match self.tickets.values().next() {
            Some((connection, api)) => Err(format!("{connection} ({api}) was never answered, even by unloading (S18)")),
            None => Ok(()),
        }
    }

    fn check(&self) -> Success<()> {
        self.core.check_invariants().map_err(|violation| format!("{violation:?}"))
    }

    fn loaded(&mut self) -> Success<Vec<String>> {
        self.shown(|core, now, sink| core.loaded(now, sink))
    }

    fn unload(&mut self) -> Success<Vec<String>> {
        self.shown(|core, now, sink| core.unload(now, sink))
    }

    fn explain(&self, group_id: &str) -> Vec<String> {
        let lines = render::explanation(self.core.explain(group_id, self.now_ms).as_ref(), self.now_ms);
        lines.iter().map(|line| line.shown(&self.cast)).collect()
    }

    fn request(&mut self, connection: &str, api: &str, options: &[&str]) -> Success<Vec<String>> {
        if self.tickets.values().any(|(waiting, _)| waiting == connection) {
            return Err(format!(
                "connection {connection} still waits for an answer: use {connection}' for another one"
            ));
        }
        let request = requests::build(&mut self.cast, connection, api, options)?;
        self.next_ticket += 1;
        let ticket = self.next_ticket;
        self.tickets.insert(ticket, (connection.to_owned(), request.name()));
        let entropy = Entropy(u128::from(ticket).wrapping_mul(SPREAD));
        self.shown(|core, now, sink| {
            request.with(|request| core.submit(now, Ticket(ticket), entropy, request, sink));
        })
    }

    fn end_append(&mut self, word: &str, rest: &[&str]) -> Success<Vec<String>> {
        let at = if rest.last() == Some(&"newest") { self.in_flight.len().saturating_sub(1) } else { 0 };
        if at >= self.in_flight.len() {
            return Err(format!("`{word}`, but no append is in flight"));
        }
        let (append_id, offset) = self.in_flight.remove(at);
        let name = rest.first().filter(|name| **name != "newest").unwrap_or(&"NOT_LEADER_OR_FOLLOWER");
        let result = if word == "stored" {
            Ok(offset)
        } else {
            let error = ErrorCode::ALL.iter().find(|error| error.name() == *name);
            Err(*error.ok_or_else(|| format!("`{name}` is no error"))?)
        };
        self.shown(|core, now, sink| core.appended(append_id, result, now, sink))
    }

    /// Stops at every deadline on the way, as a driver with a timer would.
    fn pass_time(&mut self, span_ms: u64) -> Success<Vec<String>> {
        let (start_ms, target_ms) = (self.now_ms, self.now_ms + span_ms);
        let mut lines = Vec::new();
        let mut stops = 0;
        while let Some(deadline_ms) = self.core.next_deadline().filter(|deadline_ms| *deadline_ms <= target_ms) {
            stops = if deadline_ms <= self.now_ms { stops + 1 } else { 0 };
            if stops > DEADLINES_AT_ONE_INSTANT_MAX {
                return Err(format!("next_deadline stays at {deadline_ms} ms although advance was called"));
            }
            self.now_ms = self.now_ms.max(deadline_ms);
            self.advance(start_ms, target_ms, &mut lines)?;
        }
        self.now_ms = target_ms;
        self.advance(start_ms, target_ms, &mut lines)?;
        Ok(lines)
    }

    fn advance(&mut self, start_ms: u64, target_ms: u64, lines: &mut Vec<String>) -> Success<()> {
        let since = duration_text((self.now_ms - start_ms) as i64);
        let early = if self.now_ms < target_ms { format!("@{since} ") } else { String::new() };
        let fired = self.shown(|core, now, sink| core.advance(now, sink))?;
        lines.extend(fired.into_iter().map(|line| format!("{early}{line}")));
        self.check()
    }

    /// Does it, then binds the ids in the answers, then shows: a list may name a member before its own answer does.
    fn shown(&mut self, verb: impl FnOnce(&mut Coordinator, Now, &mut dyn Sink)) -> Success<Vec<String>> {
        let now = Now { mono_ms: self.now_ms, wall_ms: WALL_EPOCH_MS + self.now_ms as i64 };
        let mut effects = Effects { all: Vec::new(), answers_until_loss: self.answers_until_loss };
        verb(&mut self.core, now, &mut effects);
        self.answers_until_loss = effects.answers_until_loss;
        for effect in &effects.all {
            if let Effect::Answer { ticket, taught: Some(taught), .. } = effect {
                self.learn(*ticket, taught)?;
            }
        }
        effects.all.into_iter().map(|effect| self.line(effect)).collect()
    }

    fn learn(&mut self, ticket: u64, taught: &Taught) -> Success<()> {
        let Some((connection, _)) = self.tickets.get(&ticket) else { return Ok(()) };
        if matches!(taught.error, ErrorCode::None | ErrorCode::MemberIdRequired) {
            self.cast.bind(connection, &taught.member_id)?;
        }
        if taught.error == ErrorCode::None {
            let actor = self.cast.actor(connection);
            actor.generation = taught.generation;
            actor.told.clone_from(&taught.told);
        }
        Ok(())
    }

    fn line(&mut self, effect: Effect) -> Success<String> {
        match effect {
            Effect::Append { append_id, records, line } => {
                self.in_flight.push((append_id, self.next_offset));
                self.next_offset += records;
                Ok(line.shown(&self.cast))
            }
            Effect::Answer { ticket, api, line, .. } => {
                let shown = line.shown(&self.cast);
                let Some((connection, asked)) = self.tickets.remove(&ticket) else {
                    let what = if self.answered.contains(&ticket) { "a second time" } else { "without a request" };
                    return Err(format!("ticket {ticket} is answered {what} (S18): {shown}"));
                };
                self.answered.insert(ticket);
                if asked != api {
                    return Err(format!("{connection} sent {asked} and is answered with {api}"));
                }
                Ok(format!("{connection}< {shown}"))
            }
        }
    }
}
