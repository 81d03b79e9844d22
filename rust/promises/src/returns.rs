//! S29, S17: a member that has gone does not return.

use std::{collections::HashMap, sync::Arc};

use serde::{Deserialize, Serialize};

use crate::{finding::Found, recent::Recent, version::Version};

/// The members that a group's records have and had.
#[derive(Debug, Default, Deserialize, Serialize)]
pub(crate) struct Members {
    /// Those of the last record, and their instances.
    present: HashMap<Arc<str>, Option<Arc<str>>>,
    gone: Recent<Arc<str>, Gone>,
}

#[derive(Clone, Debug, Deserialize, Serialize)]
struct Gone {
    /// Of the first record without the member.
    offset: i64,
    /// Who had its instance then.
    successor: Option<Arc<str>>,
}

impl Members {
    /// `was_told` says whether a member got a successful answer: of two members with one instance the newcomer may
    /// have got an error.
    pub(crate) fn of_version(&mut self, version: &Version, was_told: impl Fn(&str) -> bool, found: &mut Found) {
        let (at, kept) = (version.at(), found.extent.members());
        let now: HashMap<Arc<str>, Option<Arc<str>>> =
            version.members.iter().map(|member| (Arc::clone(&member.name), member.instance.clone())).collect();
        for member in &version.members {
            if self.present.contains_key(&member.name) {
                continue;
            }
            let Some(Gone { offset, successor }) = self.gone.remove(&member.name) else { continue };
            let (name, how) = match &successor {
                Some(successor) if !was_told(successor) => continue,
                Some(_) => ("replacement lost", "replaced"),
                None => ("resurrected", "gone"),
            };
            let witness = format!("{how} at offset {offset}, back at {}", version.offset);
            found.push(at.since(offset, name, vec![Arc::clone(&member.name)], witness));
        }
        let mut gone: Vec<_> = self.present.drain().filter(|(member, _)| !now.contains_key(member)).collect();
        gone.sort();
        if !gone.is_empty() {
            let holders: HashMap<&Arc<str>, &Arc<str>> =
                version.members.iter().filter_map(|member| Some((member.instance.as_ref()?, &member.name))).collect();
            for (member, instance) in gone {
                let successor = instance.and_then(|instance| holders.get(&instance).copied().cloned());
                self.gone.insert(member, Gone { offset: version.offset, successor }, kept);
            }
        }
        self.present = now;
    }
}
