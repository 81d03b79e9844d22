//! Which partition of `__consumer_offsets`, and so which coordinator, a group belongs to (docs/protocol.md §19).

/// Java's hash of the group id, made non-negative, modulo the number of partitions.
pub fn partition_of(group_id: &str, partitions: u32) -> u32 {
    let hash = group_id.encode_utf16().fold(0_i32, |hash, unit| hash.wrapping_mul(31).wrapping_add(i32::from(unit)));
    // The one hash without a positive counterpart counts as 0.
    hash.checked_abs().unwrap_or(0) as u32 % partitions
}

#[cfg(test)]
mod tests {
    use super::partition_of;

    #[test]
    fn the_partition_is_that_of_javas_string_hash() {
        // From Java: Math.abs("my-group".hashCode()) % 50, and so on.
        assert_eq!(partition_of("", 50), 0);
        assert_eq!(partition_of("a", 50), 97 % 50);
        assert_eq!(partition_of("ab", 50), (97 * 31 + 98) % 50);
        assert_eq!(partition_of("hello", 50), 99_162_322 % 50);
    }

    #[test]
    fn the_smallest_hash_goes_to_partition_zero() {
        // "polygenelubricants" hashes to i32::MIN.
        assert_eq!(partition_of("polygenelubricants", 50), 0);
    }

    #[test]
    fn characters_outside_the_basic_plane_count_as_two_units() {
        let units: Vec<u16> = "😀".encode_utf16().collect();
        let expected = (i32::from(units[0]) * 31 + i32::from(units[1])) as u32 % 50;
        assert_eq!(partition_of("😀", 50), expected);
    }
}
