//! Which client speaks for which member. Only a server with a virtual clock asks: when time jumps, members whose
//! clients are alive would have sent heartbeats.

use std::{collections::HashMap, mem};

use crate::net::connection::{Connection, Seen};

/// One member, as its client was last heard: of its connection, whether it is gone and whether a request waits there.
#[derive(Clone, Debug)]
pub struct Voice {
    gone: Seen,
    parked: Seen,
    paused: Seen,
    kept_ms: Option<u64>,
}

/// A group and a member of it.
pub type MemberKey = (String, String);

/// The members that clients have spoken for.
#[derive(Debug, Default)]
pub struct Members {
    voices: HashMap<MemberKey, Voice>,
}

impl Members {
    /// `connection` has sent a request of this member.
    pub fn heard(&mut self, group_id: &str, member_id: &str, connection: &Connection) {
        if member_id.is_empty() {
            return;
        }
        let (gone, parked, paused) = (connection.gone.seen(), connection.parked.seen(), connection.paused.seen());
        let key = (group_id.to_owned(), member_id.to_owned());
        let kept_ms = self.voices.get(&key).and_then(|voice| voice.kept_ms);
        self.voices.insert(key, Voice { gone, parked, paused, kept_ms });
    }

    /// The members to keep at `now_ms`: their connection is open, no request of theirs waits, they are not paused
    /// or in `expire`, and they were not kept within the last `session_ms`. Members whose connection is gone are forgotten.
    pub fn keep(&mut self, now_ms: u64, session_ms: u64, expire: &[String]) -> Vec<MemberKey> {
        self.voices.retain(|_, voice| !voice.gone.get());
        let mut kept = Vec::new();
        for (key, voice) in &mut self.voices {
            let recent = voice.kept_ms.is_some_and(|kept_ms| now_ms < kept_ms + session_ms);
            let silent = voice.parked.get() || voice.paused.get();
            if !silent && !recent && !expire.contains(&key.1) {
                voice.kept_ms = Some(now_ms);
                kept.push(key.clone());
            }
        }
        kept.sort_unstable();
        kept
    }

    /// The members of the groups for which `leaves` holds go: another node will hear them.
    pub fn take(&mut self, leaves: impl Fn(&str) -> bool) -> Vec<(MemberKey, Voice)> {
        let (gone, kept) = mem::take(&mut self.voices).into_iter().partition(|((group_id, _), _)| leaves(group_id));
        self.voices = kept;
        let gone: HashMap<MemberKey, Voice> = gone;
        gone.into_iter().collect()
    }

    /// Members come that another node has heard.
    pub fn put(&mut self, voices: Vec<(MemberKey, Voice)>) {
        self.voices.extend(voices);
    }
}
