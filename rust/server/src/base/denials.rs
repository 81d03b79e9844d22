//! What clients were refused, as lines for the operator, in the words of Kafka's `kafka.authorizer.logger`. Equal lines
//! are at least [`LINE_INTERVAL`] apart, so that a client that asks in a loop does not fill a log.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

/// Minimum time between two equal lines.
const LINE_INTERVAL: Duration = Duration::from_secs(10);

/// Maximum lines that wait to be read; then further ones are counted only.
const LINES_MAX: usize = 256;

/// Maximum lines that are remembered.
const SHOWN_MAX: usize = 1_024;

/// Minimum time between two searches for lines that need not be remembered any more.
const PURGE_INTERVAL: Duration = Duration::from_secs(1);

#[derive(Debug)]
struct Shown {
    at: Instant,
    /// Denials since then without a line.
    silent: u64,
}

#[derive(Debug, Default)]
struct Lines {
    shown: BTreeMap<String, Shown>,
    waiting: VecDeque<String>,
    /// When old lines were searched for last.
    purged: Option<Instant>,
    /// Denials whose line was not kept.
    lost: u64,
}

/// The denials of a server.
#[derive(Debug, Default)]
pub struct Denials {
    lines: Mutex<Lines>,
}

impl Denials {
    /// Records a denial with its line.
    pub fn record(&self, line: String) {
        self.record_at(printable(line), Instant::now());
    }

    fn record_at(&self, line: String, now: Instant) {
        let lines = &mut *self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        let is_recent = |shown: &Shown| now.duration_since(shown.at) < LINE_INTERVAL;
        let silent = match lines.shown.get_mut(&line) {
            Some(shown) if is_recent(shown) => {
                shown.silent += 1;
                return;
            }
            shown => shown.map_or(0, |shown| shown.silent),
        };
        // One request can be denied a hundred thousand times, and all nodes wait for the lock.
        let is_full = lines.waiting.len() == LINES_MAX;
        let is_purged = lines.purged.is_some_and(|purged| now.duration_since(purged) < PURGE_INTERVAL);
        if !is_full && !is_purged && lines.shown.len() >= SHOWN_MAX {
            lines.shown.retain(|_, shown| is_recent(shown));
            lines.purged = Some(now);
        }
        if is_full || lines.shown.len() >= SHOWN_MAX {
            lines.lost += 1;
            return;
        }
        let more = if silent == 0 { String::new() } else { format!("; {silent} more since the last such line") };
        lines.waiting.push_back(format!("{line}{more}"));
        lines.shown.insert(line, Shown { at: now, silent: 0 });
    }

    /// Takes the lines since the last call, oldest first.
    pub fn take_lines(&self) -> Vec<String> {
        let lines = &mut *self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        let mut taken: Vec<String> = lines.waiting.drain(..).collect();
        if std::mem::take(&mut lines.lost) > 0 {
            taken.push("more requests were denied than there are lines".to_owned());
        }
        taken
    }
}

/// The text as one line. Clients choose the names of resources, and authorities the names of certificates.
fn printable(line: String) -> String {
    if !line.contains(char::is_control) {
        return line;
    }
    let mut shown = String::with_capacity(line.len());
    for char in line.chars() {
        if char.is_control() { shown.extend(char.escape_default()) } else { shown.push(char) }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_client_chose_begins_no_line_of_its_own() {
        let denials = Denials::default();
        denials.record("resource = Group:LITERAL:a\nrota: all is lost\u{1b}[2J".to_owned());
        assert_eq!(denials.take_lines(), ["resource = Group:LITERAL:a\\nrota: all is lost\\u{1b}[2J"]);
    }

    #[test]
    fn equal_lines_are_apart_and_count_what_they_leave_out() {
        let denials = Denials::default();
        let start = Instant::now();
        for seconds in [0, 1, 9, 10] {
            denials.record_at("a".to_owned(), start + Duration::from_secs(seconds));
        }
        denials.record_at("b".to_owned(), start);
        assert_eq!(denials.take_lines(), ["a", "a; 2 more since the last such line", "b"]);
        assert_eq!(denials.take_lines(), [""; 0]);
    }

    #[test]
    fn lines_and_memory_are_bounded() {
        let denials = Denials::default();
        let start = Instant::now();
        for number in 0..10_000 {
            denials.record_at(number.to_string(), start);
        }
        let lines = denials.take_lines();
        assert_eq!((lines.len(), lines.last().unwrap().starts_with("more requests")), (LINES_MAX + 1, true));
        let shown = remembered(&denials);
        assert!(shown <= SHOWN_MAX, "{shown}");
    }

    /// Denials that remember as many lines as they may, all of them from `at`.
    fn full(at: Instant) -> Denials {
        let denials = Denials::default();
        for number in 0..SHOWN_MAX {
            if number % LINES_MAX == 0 {
                denials.take_lines();
            }
            denials.record_at(number.to_string(), at);
        }
        denials
    }

    fn remembered(denials: &Denials) -> usize {
        denials.lines.lock().unwrap().shown.len()
    }

    #[test]
    fn old_lines_are_not_searched_for_while_there_is_no_room_for_a_new_one() {
        let start = Instant::now();
        let denials = full(start);
        denials.record_at("a".to_owned(), start + LINE_INTERVAL);
        assert_eq!(remembered(&denials), SHOWN_MAX);
        denials.take_lines();
        denials.record_at("a".to_owned(), start + LINE_INTERVAL);
        assert_eq!(denials.take_lines(), ["a"]);
        assert_eq!(remembered(&denials), 1);
    }

    #[test]
    fn old_lines_are_searched_for_at_most_once_in_an_interval() {
        let start = Instant::now();
        let denials = full(start);
        denials.take_lines();
        // Before any line is old, when all are, and an interval after the first time.
        let early = start + LINE_INTERVAL.saturating_sub(PURGE_INTERVAL / 2);
        for (at, remembers) in [(early, SHOWN_MAX), (start + LINE_INTERVAL, SHOWN_MAX), (early + PURGE_INTERVAL, 1)] {
            denials.record_at("a".to_owned(), at);
            assert_eq!(remembered(&denials), remembers);
        }
    }
}
