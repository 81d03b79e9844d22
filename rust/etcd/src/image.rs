//! The keys that every node watches, as they are at a revision.

use std::collections::BTreeMap;

use bytes::Bytes;
use rota_engine::{HistoryId, Meta, NodeId, PartitionId, Registration, Revision, View};

use crate::{keys::Keys, proto::KeyValue, txn::Malformed, values::Value};

/// All keys below `v/`, by their names after it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Image {
    values: BTreeMap<String, Bytes>,
}

impl Image {
    /// What a range over `v/` has read.
    pub fn read(keys: &Keys, kvs: &[KeyValue]) -> Image {
        let named = kvs.iter().filter_map(|kv| Some((keys.in_view(&kv.key)?.to_owned(), kv.value.clone())));
        Image { values: named.collect() }
    }

    /// Takes a change from the watch over: a new value, or none of a key that was deleted.
    pub fn change(&mut self, keys: &Keys, key: &[u8], value: Option<Bytes>) {
        let Some(name) = keys.in_view(key) else { return };
        match value {
            Some(value) => self.values.insert(name.to_owned(), value),
            None => self.values.remove(name),
        };
    }

    /// The image as the protocol knows it.
    pub fn view(&self, revision: Revision) -> Result<View, Malformed> {
        let history: Option<HistoryId> = self.get("history")?;
        let format: Option<u32> = self.get("format")?;
        let meta = Meta { history: history.unwrap_or(HistoryId(0)), format: format.unwrap_or(0) };
        let mut view = View {
            revision,
            meta,
            nodes: BTreeMap::new(),
            beats: BTreeMap::new(),
            parts: BTreeMap::new(),
            notes: BTreeMap::new(),
        };
        for (name, value) in &self.values {
            self.add(&mut view, name, value)?;
        }
        Ok(view)
    }

    fn add(&self, view: &mut View, name: &str, value: &Bytes) -> Result<(), Malformed> {
        let Some((kind, of)) = name.split_once('/') else { return Ok(()) };
        match kind {
            "part" => {
                view.parts.insert(PartitionId(number(of)?), decode(value)?);
            }
            "beat" => {
                view.beats.insert(NodeId(number(of)?), decode(value)?);
            }
            "node" => {
                let Some(id) = of.strip_suffix("/directory") else { return Ok(()) };
                let Some(incarnation) = self.get(&format!("node/{id}/incarnation"))? else { return Ok(()) };
                view.nodes.insert(NodeId(number(id)?), Registration { directory: decode(value)?, incarnation });
            }
            "note" => {
                view.notes.insert(of.to_owned(), value.to_vec());
            }
            // A later version of rota has more of them.
            _ => {}
        }
        Ok(())
    }

    fn get<T: Value>(&self, name: &str) -> Result<Option<T>, Malformed> {
        self.values.get(name).map(decode).transpose()
    }
}

fn decode<T: Value>(value: &Bytes) -> Result<T, Malformed> {
    T::decode(value).ok_or(Malformed("a value that rota did not write"))
}

fn number(text: &str) -> Result<i32, Malformed> {
    text.parse().map_err(|_| Malformed("a key that rota did not write"))
}
