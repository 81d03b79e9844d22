//! Random bits for member ids, topic ids and the cluster's id.

use std::{
    collections::hash_map::RandomState,
    hash::{BuildHasher, Hasher},
};

/// A keyed hash of a counter. The standard library draws the keys from the system's random source.
#[derive(Debug, Default)]
pub struct RandomBits {
    keys: [RandomState; 2],
    drawn: u64,
}

impl RandomBits {
    /// Returns 128 random bits.
    pub fn draw(&mut self) -> u128 {
        self.drawn += 1;
        let [high, low] = self.keys.each_ref().map(|key| {
            let mut hasher = key.build_hasher();
            hasher.write_u64(self.drawn);
            hasher.finish()
        });
        u128::from(high) << 64 | u128::from(low)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::RandomBits;

    #[test]
    fn no_draw_repeats_another_and_the_halves_differ() {
        let mut bits = RandomBits::default();
        let drawn: HashSet<u128> = (0..10_000).map(|_| bits.draw()).collect();
        assert_eq!(drawn.len(), 10_000);
        assert!(drawn.iter().all(|bits| bits >> 64 != bits & u128::from(u64::MAX)));
    }
}
