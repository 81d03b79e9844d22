//! User data of the sticky assignors in a subscription: the member's last assignment.

use crate::embedded::{EmbeddedError, TopicPartitions, read_topic_partitions, write_topic_partitions};

/// A member's last assignment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Remembered {
    /// The assigned partitions.
    pub partitions: Vec<TopicPartitions>,
    /// The generation of the assignment; -1: unknown.
    pub generation: i32,
}

/// Encodes the user data of `sticky`: partitions by topic, then the generation.
pub fn encode_sticky(remembered: &Remembered) -> Result<Vec<u8>, EmbeddedError> {
    let mut bytes = Vec::new();
    write_topic_partitions(&mut bytes, "user_data", &remembered.partitions)?;
    bytes.extend_from_slice(&remembered.generation.to_be_bytes());
    Ok(bytes)
}

/// Decodes the user data of `sticky`. Its first version had no generation. Undecodable bytes claim nothing: after a
/// change of assignors they are those of another one.
pub fn decode_sticky(bytes: &[u8]) -> Remembered {
    let Ok((partitions, rest)) = read_topic_partitions(bytes, "user_data") else {
        return Remembered { partitions: Vec::new(), generation: -1 };
    };
    let generation = rest.first_chunk().map_or(-1, |bytes| i32::from_be_bytes(*bytes));
    Remembered { partitions, generation: generation.max(-1) }
}

/// Encodes the user data of `cooperative_sticky`: the generation, -1 before the first assignment.
pub fn encode_cooperative_sticky(generation: i32) -> Vec<u8> {
    generation.to_be_bytes().to_vec()
}

/// Decodes the user data of `cooperative_sticky`; -1 if it has no generation.
pub fn decode_cooperative_sticky(bytes: &[u8]) -> i32 {
    bytes.first_chunk().map_or(-1, |bytes| i32::from_be_bytes(*bytes).max(-1))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hex(text: &str) -> Vec<u8> {
        let digits: String = text.split_whitespace().collect();
        (0..digits.len()).step_by(2).map(|at| u8::from_str_radix(&digits[at..at + 2], 16).unwrap()).collect()
    }

    fn a_0_2() -> Vec<TopicPartitions> {
        vec![TopicPartitions { topic: "a".into(), partitions: vec![0, 2] }]
    }

    #[test]
    fn sticky_reads_and_writes_its_known_bytes() {
        let bytes = hex("00000001 0001 61 00000002 00000000 00000002 00000005");
        let remembered = Remembered { partitions: a_0_2(), generation: 5 };
        assert_eq!(encode_sticky(&remembered), Ok(bytes.clone()));
        assert_eq!(decode_sticky(&bytes), remembered);
    }

    #[test]
    fn the_first_version_of_sticky_has_no_generation() {
        let bytes = hex("00000001 0001 61 00000002 00000000 00000002");
        assert_eq!(decode_sticky(&bytes), Remembered { partitions: a_0_2(), generation: -1 });
    }

    #[test]
    fn what_sticky_cannot_read_claims_nothing() {
        for bytes in [&[][..], &[1, 2], &hex("7fffffff 0001 61"), &hex("00000001 0001 ff 00000000 00000001")] {
            assert_eq!(decode_sticky(bytes), Remembered { partitions: vec![], generation: -1 });
        }
    }

    #[test]
    fn cooperative_sticky_sends_its_generation() {
        assert_eq!(encode_cooperative_sticky(5), hex("00000005"));
        assert_eq!(decode_cooperative_sticky(&hex("00000005")), 5);
        assert_eq!(decode_cooperative_sticky(&hex("ffffffff")), -1);
        assert_eq!(decode_cooperative_sticky(&hex("0000")), -1);
    }
}
