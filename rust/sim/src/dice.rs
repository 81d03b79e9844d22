//! Chance that is the seed's alone.

/// xorshift64*.
#[derive(Clone)]
pub struct Dice(u64);

impl Dice {
    /// The same seed gives the same rolls.
    pub fn new(seed: u64) -> Dice {
        Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// From 0 to `sides` - 1.
    pub fn roll(&mut self, sides: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) as usize % sides
    }

    /// One of these.
    pub fn pick<T: Clone>(&mut self, from: &[T]) -> T {
        from[self.roll(from.len())].clone()
    }

    /// True in so many of a hundred cases.
    pub fn chance(&mut self, in_hundred: usize) -> bool {
        self.roll(100) < in_hundred
    }
}
