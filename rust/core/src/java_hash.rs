//! Java's string hash, and the partition of a group (docs/protocol.md §19).

/// Java's string hash: 31·h + c over UTF-16 code units, wrapping (§19).
pub fn java_hash(text: &str) -> i32 {
    text.encode_utf16().fold(0i32, |hash, unit| hash.wrapping_mul(31).wrapping_add(i32::from(unit)))
}

/// Returns the partition of `__consumer_offsets` that owns a group (§19).
pub fn partition_for(group_id: &str, partitions: u32) -> u32 {
    positive(java_hash(group_id)) % partitions
}

/// Like [`partition_for`] for the bytes of an id in a request. Returns `None` if they are not all ASCII.
pub fn partition_of_bytes(group_id: &[u8], partitions: u32) -> Option<u32> {
    const POWERS: [u32; 4] = [31 * 31 * 31 * 31, 31 * 31 * 31, 31 * 31, 31];
    // Four at a time shortens the chain of dependent multiplications to a quarter.
    let (fours, rest) = group_id.as_chunks::<4>();
    let hash = fours.iter().fold(0_u32, |hash, [a, b, c, d]| {
        let four = POWERS[1] * u32::from(*a) + POWERS[2] * u32::from(*b) + POWERS[3] * u32::from(*c) + u32::from(*d);
        hash.wrapping_mul(POWERS[0]).wrapping_add(four)
    });
    let hash = rest.iter().fold(hash, |hash, byte| hash.wrapping_mul(31).wrapping_add(u32::from(*byte)));
    group_id.is_ascii().then_some(positive(hash.cast_signed()) % partitions)
}

fn positive(hash: i32) -> u32 {
    if hash == i32::MIN { 0 } else { hash.unsigned_abs() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_go_to_the_partitions_that_kafka_gives_them() {
        for (group_id, partition) in [
            ("", 0),
            ("a", 47),
            ("groupId", 18),
            ("group-id", 13),
            ("otherGroup", 13),
            ("my-consumer-group", 13),
            ("polygenelubricants", 0),
            ("grüppe", 12),
            ("😀", 49),
        ] {
            assert_eq!(partition_for(group_id, 50), partition, "{group_id}");
            let of_bytes = partition_of_bytes(group_id.as_bytes(), 50);
            assert_eq!(of_bytes, group_id.is_ascii().then_some(partition), "{group_id}");
        }
    }

    #[test]
    fn the_partition_is_that_of_javas_string_hash() {
        // From Java: Math.abs("my-group".hashCode()) % 50, and so on.
        assert_eq!(partition_for("", 50), 0);
        assert_eq!(partition_for("a", 50), 97 % 50);
        assert_eq!(partition_for("ab", 50), (97 * 31 + 98) % 50);
        assert_eq!(partition_for("hello", 50), 99_162_322 % 50);
    }

    #[test]
    fn characters_outside_the_basic_plane_count_as_two_units() {
        let units: Vec<u16> = "😀".encode_utf16().collect();
        let expected = (i32::from(units[0]) * 31 + i32::from(units[1])) as u32 % 50;
        assert_eq!(partition_for("😀", 50), expected);
    }
}
