//! Topic patterns: whether they are valid, which topics they match, and when to look again (docs/consumer-protocol.md
//! §15).

use std::sync::Arc;

use regex_lite::{Regex, RegexBuilder};

use super::{group::ConsumerGroup, re2, topics::Topics};
use crate::records::{PatternValue, SubscriptionValue};

/// The longest pattern, in bytes.
const PATTERN_MAX_BYTES: usize = 32_768;
/// The largest compiled pattern, in bytes. The comparison with a topic takes as long as it is large, and the name of the topic
/// is long; with a pattern of 256 KiB, some hundred topics would stop a node for seconds.
const PROGRAM_MAX_BYTES: usize = 65_536;
/// The same of a pattern that the log has: earlier releases took larger ones.
const STORED_PROGRAM_MAX_BYTES: usize = 262_144;
/// How deeply groups and repetitions may nest.
const NESTING_MAX: u32 = 200;

/// A group resolves its patterns at most once in this time.
const REFRESH_MIN_MS: i64 = 10_000;
/// The patterns of a group are resolved again after this time, even if no topic is new.
const REFRESH_MAX_MS: i64 = 600_000;

/// A pattern that topic names can be compared with.
#[derive(Debug)]
pub struct Pattern(Regex);

impl Pattern {
    /// Reads a pattern.
    ///
    /// # Errors
    /// Why it is refused, in the words of RE2/J where RE2/J refuses it, too.
    pub fn new(pattern: &str) -> Result<Pattern, String> {
        Pattern::compiled(pattern, PROGRAM_MAX_BYTES)
    }

    fn compiled(pattern: &str, program_max_bytes: usize) -> Result<Pattern, String> {
        if pattern.len() > PATTERN_MAX_BYTES {
            return Err(format!("the expression is longer than {PATTERN_MAX_BYTES} bytes"));
        }
        let translated = re2::translate(pattern)?;
        let built = RegexBuilder::new(&translated).size_limit(program_max_bytes).nest_limit(NESTING_MAX).build();
        built.map(Pattern).map_err(|_| {
            format!(
                "the expression needs more than {program_max_bytes} bytes of memory or nests more than {NESTING_MAX} \
                 levels deep"
            )
        })
    }

    /// Whether the pattern matches the whole name.
    pub fn matches(&self, topic: &str) -> bool {
        self.0.is_match(topic)
    }
}

impl ConsumerGroup {
    /// The pattern of a member; `None`: it has none.
    pub fn pattern_of(value: &SubscriptionValue) -> Option<&Arc<str>> {
        value.topic_regex.as_ref().filter(|pattern| !pattern.is_empty())
    }

    /// Whether a member has a pattern.
    pub fn has_patterns(&self) -> bool {
        !self.pattern_members.is_empty()
    }

    /// The topics that a member's pattern was resolved to, sorted.
    pub fn pattern_topics(&self, value: &SubscriptionValue) -> &[Arc<str>] {
        ConsumerGroup::pattern_of(value).map_or(&[], |pattern| self.resolved_topics(pattern))
    }

    /// The topics that a pattern was resolved to, sorted.
    pub fn resolved_topics(&self, pattern: &str) -> &[Arc<str>] {
        self.patterns.get(pattern).map_or(&[], |resolved| &resolved.topics)
    }

    /// The names of a member's topics: those that it names, and then those of its pattern. A name may come twice.
    pub fn subscribed<'g>(&'g self, value: &'g SubscriptionValue) -> impl Iterator<Item = &'g Arc<str>> {
        value.topic_names.iter().chain(self.pattern_topics(value))
    }

    /// Whether a member subscribes to the topic, by name or by pattern.
    pub fn is_subscribed(&self, value: &SubscriptionValue, topic: &str) -> bool {
        value.topic_names.binary_search_by(|name| (**name).cmp(topic)).is_ok()
            || self.pattern_topics(value).binary_search_by(|name| (**name).cmp(topic)).is_ok()
    }

    /// Whether a member has this pattern.
    pub fn has_pattern(&self, pattern: &str) -> bool {
        self.pattern_members.contains_key(pattern)
    }

    /// Whether the pattern is resolved.
    pub fn is_resolved(&self, pattern: &str) -> bool {
        self.patterns.contains_key(pattern)
    }

    /// Resolved patterns that no member has any more.
    pub fn unused_patterns(&self) -> Vec<Arc<str>> {
        self.patterns.keys().filter(|pattern| !self.pattern_members.contains_key(*pattern)).cloned().collect()
    }

    /// When the patterns were last resolved, wall milliseconds.
    pub fn resolved_ms(&self) -> Option<i64> {
        self.patterns.values().map(|resolved| resolved.timestamp_ms).max()
    }

    /// Whether the patterns are to be resolved now. `resolved_ms` is when they were last resolved, before the request
    /// that asks.
    pub fn patterns_are_due(&self, resolved_ms: Option<i64>, wall_ms: i64) -> bool {
        if self.pattern_members.is_empty() || self.resolution.is_some() {
            return false;
        }
        // A clock that was put back counts as a long time.
        let age_ms = resolved_ms.map_or(i64::MAX, |resolved_ms| wall_ms.saturating_sub(resolved_ms));
        if (0..=REFRESH_MIN_MS).contains(&age_ms) {
            return false;
        }
        let is_old = !(0..=REFRESH_MAX_MS).contains(&age_ms);
        is_old || self.topics_are_new || self.pattern_members.keys().any(|pattern| !self.patterns.contains_key(pattern))
    }

    /// What each pattern of a member matches now, of the topics that are visible.
    pub fn resolve(&self, topics: &Topics, wall_ms: i64) -> Vec<(Arc<str>, PatternValue)> {
        let matching = |pattern: &Arc<str>| {
            // A log of Kafka's may have a pattern that is too large here: it matches nothing.
            let compiled = Pattern::compiled(pattern, STORED_PROGRAM_MAX_BYTES).ok();
            let visible = topics.names().filter(|name| self.visible.as_ref().is_none_or(|names| names.contains(*name)));
            let names = visible.filter(|name| compiled.as_ref().is_some_and(|compiled| compiled.matches(name)));
            PatternValue { topics: names.cloned().collect(), version: 0, timestamp_ms: wall_ms }
        };
        self.pattern_members.keys().map(|pattern| (Arc::clone(pattern), matching(pattern))).collect()
    }
}
