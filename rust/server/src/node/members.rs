//! Which client speaks for which member. Only a server with a virtual clock asks: when time jumps, members whose
//! clients are alive would have sent heartbeats.

use std::{collections::HashMap, mem};

use crate::client::{Client, MemberKey, Presence};

/// The client that has spoken for a member last.
#[derive(Clone, Debug)]
pub struct Voice {
    client: Presence,
    kept_ms: Option<u64>,
}

/// The members that clients have spoken for.
#[derive(Debug, Default)]
pub struct Members {
    voices: HashMap<MemberKey, Voice>,
}

impl Members {
    /// `client` has sent a request of this member.
    pub fn heard(&mut self, group_id: &str, member_id: &str, client: &Client) {
        if member_id.is_empty() {
            return;
        }
        let key = (group_id.to_owned(), member_id.to_owned());
        let kept_ms = self.voices.get(&key).and_then(|voice| voice.kept_ms);
        self.voices.insert(key, Voice { client: client.presence(), kept_ms });
    }

    /// The members to keep at `now_ms`: their connection is open, no request of theirs waits, they are not paused
    /// or in `expire`, and they were not kept within the last `session_ms`. Members whose connection is gone are forgotten.
    pub fn keep(&mut self, now_ms: u64, session_ms: u64, expire: &[String]) -> Vec<MemberKey> {
        self.voices.retain(|_, voice| !voice.client.is_gone());
        let mut kept = Vec::new();
        for (key, voice) in &mut self.voices {
            let recent = voice.kept_ms.is_some_and(|kept_ms| now_ms < kept_ms + session_ms);
            let silent = voice.client.is_parked() || voice.client.is_paused();
            if !silent && !recent && !expire.contains(&key.1) {
                voice.kept_ms = Some(now_ms);
                kept.push(key.clone());
            }
        }
        kept.sort_unstable();
        kept
    }

    /// Whether a client that is alive and not paused has spoken for this member.
    pub fn hears(&self, group_id: &str, member_id: &str) -> bool {
        let voice = self.voices.get(&(group_id.to_owned(), member_id.to_owned()));
        voice.is_some_and(|voice| !voice.client.is_gone() && !voice.client.is_paused())
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
