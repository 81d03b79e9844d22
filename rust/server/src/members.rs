//! Which client speaks for which member. Only a server with a virtual clock asks: when time jumps, members whose
//! clients are alive would have sent heartbeats.

use std::{
    collections::HashMap,
    rc::{Rc, Weak},
};

use crate::connection::Connection;

/// One member, as its client was last heard.
#[derive(Debug)]
struct Voice {
    connection: Weak<Connection>,
    kept_ms: Option<u64>,
}

/// The members that clients have spoken for, by group and member id.
#[derive(Debug, Default)]
pub struct Members {
    voices: HashMap<(String, String), Voice>,
}

impl Members {
    /// `connection` has sent a request of this member.
    pub fn heard(&mut self, group_id: &str, member_id: &str, connection: &Rc<Connection>) {
        if member_id.is_empty() {
            return;
        }
        let voice = self
            .voices
            .entry((group_id.to_owned(), member_id.to_owned()))
            .or_insert(Voice { connection: Weak::new(), kept_ms: None });
        voice.connection = Rc::downgrade(connection);
    }

    /// The members to keep at `now_ms`: their connection is open, no request of theirs waits, they are not in
    /// `expire`, and they were not kept within the last `session_ms`. Members whose connection is gone are forgotten.
    pub fn keep(&mut self, now_ms: u64, session_ms: u64, expire: &[String]) -> Vec<(String, String)> {
        self.voices.retain(|_, voice| voice.connection.upgrade().is_some_and(|connection| !connection.gone.get()));
        let mut kept = Vec::new();
        for (key, voice) in &mut self.voices {
            let waits = voice.connection.upgrade().is_none_or(|connection| connection.parked.get());
            let recent = voice.kept_ms.is_some_and(|kept_ms| now_ms < kept_ms + session_ms);
            if !waits && !recent && !expire.contains(&key.1) {
                voice.kept_ms = Some(now_ms);
                kept.push(key.clone());
            }
        }
        kept.sort_unstable();
        kept
    }
}
