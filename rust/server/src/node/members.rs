//! The client of each member. Only a server with a virtual clock records it: when time jumps, members with connected
//! clients would have sent heartbeats, so the node sends these itself.

use std::{collections::HashMap, mem};

use crate::client::{Client, MemberKey, Presence};

/// The client that sent the last request of a member.
#[derive(Clone, Debug)]
pub struct MemberClient {
    client: Presence,
    kept_ms: Option<u64>,
}

/// The last client of each member.
#[derive(Debug, Default)]
pub struct Members {
    by_member: HashMap<MemberKey, MemberClient>,
}

impl Members {
    /// Records that `client` sent a request of this member.
    pub fn record_sender(&mut self, group_id: &str, member_id: &str, client: &Client) {
        if member_id.is_empty() {
            return;
        }
        let key = (group_id.to_owned(), member_id.to_owned());
        let kept_ms = self.by_member.get(&key).and_then(|sender| sender.kept_ms);
        self.by_member.insert(key, MemberClient { client: client.presence(), kept_ms });
    }

    /// Returns the members to keep alive at `now_ms`, sorted: their connection is open, none of their requests waits,
    /// they are not paused or in `expire`, and they were not kept within the last `session_ms`. Forgets members whose
    /// connection is closed.
    pub fn keep(&mut self, now_ms: u64, session_ms: u64, expire: &[String]) -> Vec<MemberKey> {
        self.by_member.retain(|_, sender| !sender.client.is_gone());
        let mut kept = Vec::new();
        for (key, sender) in &mut self.by_member {
            let recent = sender.kept_ms.is_some_and(|kept_ms| now_ms < kept_ms + session_ms);
            let silent = sender.client.is_parked() || sender.client.is_paused();
            if !silent && !recent && !expire.contains(&key.1) {
                sender.kept_ms = Some(now_ms);
                kept.push(key.clone());
            }
        }
        kept.sort_unstable();
        kept
    }

    /// Whether the last client of this member is connected and not paused.
    pub fn is_responsive(&self, group_id: &str, member_id: &str) -> bool {
        let sender = self.by_member.get(&(group_id.to_owned(), member_id.to_owned()));
        sender.is_some_and(|sender| !sender.client.is_gone() && !sender.client.is_paused())
    }

    /// Removes and returns the members of the groups for which `leaves` holds, for a handover.
    pub fn take(&mut self, leaves: impl Fn(&str) -> bool) -> Vec<(MemberKey, MemberClient)> {
        let (gone, kept) = mem::take(&mut self.by_member).into_iter().partition(|((group_id, _), _)| leaves(group_id));
        self.by_member = kept;
        let gone: HashMap<MemberKey, MemberClient> = gone;
        gone.into_iter().collect()
    }

    /// Adds members that another node handed over.
    pub fn put(&mut self, clients: Vec<(MemberKey, MemberClient)>) {
        self.by_member.extend(clients);
    }
}
