//! A map that keeps its latest entries.

use std::{
    borrow::Borrow,
    collections::{HashMap, VecDeque},
    hash::Hash,
};

use serde::{Deserialize, Serialize};

/// A map that forgets its oldest entries. A key that is inserted again is as new as if it had not been there.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(bound(deserialize = "K: Deserialize<'de> + Eq + Hash, V: Deserialize<'de>"))]
pub(crate) struct Recent<K, V> {
    entries: HashMap<K, (u64, V)>,
    /// Keys in the order of their insertion; of a key that was inserted again or removed the number is another one.
    order: VecDeque<(u64, K)>,
    next: u64,
}

impl<K: Clone + Eq + Hash, V> Default for Recent<K, V> {
    fn default() -> Self {
        Recent { entries: HashMap::new(), order: VecDeque::new(), next: 0 }
    }
}

impl<K: Clone + Eq + Hash, V> Recent<K, V> {
    pub(crate) fn get<Q: Eq + Hash + ?Sized>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
    {
        self.entries.get(key).map(|(_, value)| value)
    }

    pub(crate) fn get_mut<Q: Eq + Hash + ?Sized>(&mut self, key: &Q) -> Option<&mut V>
    where
        K: Borrow<Q>,
    {
        self.entries.get_mut(key).map(|(_, value)| value)
    }

    pub(crate) fn insert(&mut self, key: K, value: V, kept: usize) {
        let number = self.next;
        self.next += 1;
        self.entries.insert(key.clone(), (number, value));
        self.order.push_back((number, key));
        if self.order.len() > 2 * self.entries.len() + 16 {
            self.order.retain(|(number, key)| self.entries.get(key).is_some_and(|(current, _)| current == number));
        }
        while self.entries.len() > kept {
            let Some((number, key)) = self.order.pop_front() else { break };
            if self.entries.get(&key).is_some_and(|(current, _)| *current == number) {
                self.entries.remove(&key);
            }
        }
    }

    pub(crate) fn remove<Q: Eq + Hash + ?Sized>(&mut self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
    {
        self.entries.remove(key).map(|(_, value)| value)
    }

    pub(crate) fn clear(&mut self) {
        self.entries.clear();
        self.order.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::Recent;

    #[test]
    fn the_oldest_goes_and_what_is_inserted_again_is_new() {
        let mut recent = Recent::default();
        for key in [1, 2, 1, 3] {
            recent.insert(key, key, 2);
        }
        assert_eq!((recent.get(&1), recent.get(&2), recent.get(&3)), (Some(&1), None, Some(&3)));
    }

    #[test]
    fn memory_is_bounded_when_one_key_is_inserted_again_and_again() {
        let mut recent = Recent::default();
        recent.insert(0, 0, 100);
        for number in 0..1_000 {
            recent.insert(1, number, 100);
        }
        assert!(recent.order.len() < 30);
        assert_eq!((recent.get(&0), recent.get(&1)), (Some(&0), Some(&999)));
    }
}
