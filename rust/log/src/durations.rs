//! Histograms of durations, for metrics.

use std::time::Duration;

/// Upper bounds of the buckets in seconds, from a fast disk to the longest rebalance timeouts.
pub const BOUNDS_SECONDS: [f64; 16] =
    [0.0001, 0.000_25, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 3.0, 10.0, 30.0, 60.0, 300.0];

/// Durations by bucket. The last bucket has those above all bounds.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Histogram {
    /// Number of durations in each bucket.
    pub counts: [u64; BOUNDS_SECONDS.len() + 1],
    /// Sum of all durations in seconds.
    pub sum_seconds: f64,
}

impl Histogram {
    /// Adds a duration.
    pub fn observe(&mut self, took: Duration) {
        let seconds = took.as_secs_f64();
        let bucket = BOUNDS_SECONDS.partition_point(|bound| *bound < seconds);
        self.counts[bucket] += 1;
        self.sum_seconds += seconds;
    }

    /// Returns the number of durations.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Adds the counts of another histogram.
    pub fn add(&mut self, other: &Histogram) {
        self.counts.iter_mut().zip(other.counts).for_each(|(sum, count)| *sum += count);
        self.sum_seconds += other.sum_seconds;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_falls_into_the_first_bucket_whose_bound_it_does_not_exceed() {
        let mut histogram = Histogram::default();
        for us in [0, 100, 110, 300_000_000, 300_100_000] {
            histogram.observe(Duration::from_micros(us));
        }
        assert_eq!(histogram.counts[..3], [2, 1, 0]);
        assert_eq!(histogram.counts[BOUNDS_SECONDS.len() - 1..], [1, 1]);
        assert_eq!(histogram.count(), 5);
        assert!((histogram.sum_seconds - 600.100_21).abs() < 1e-9);
    }
}
