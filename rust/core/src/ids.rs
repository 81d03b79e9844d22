//! Member ids: a prefix and a UUID whose last 32 bits name the member's slot (docs/protocol.md §4.5).

use std::sync::Arc;

use crate::request::Entropy;

/// The fixed bits of a version-4 UUID: version 4, variant 10.
const VERSION_AND_VARIANT_MASK: u128 = 0xf000 << 64 | 0xc000 << 48;
const VERSION_AND_VARIANT: u128 = 0x4000 << 64 | 0x8000 << 48;
const SLOT_DIGITS: usize = 8;

/// Makes a member id of the form `prefix-UUID`. The prefix is the client id, or the instance id of a static member.
pub fn mint(prefix: &str, entropy: Entropy, slot: u32) -> Arc<str> {
    let random = entropy.0 & !VERSION_AND_VARIANT_MASK & !u128::from(u32::MAX);
    let hex = format!("{:032x}", random | VERSION_AND_VARIANT | u128::from(slot));
    format!("{prefix}-{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]).into()
}

/// Returns the slot that the last digits of an id name. Any bytes name some slot, so the caller compares the whole id.
#[inline]
pub fn hinted_slot(member_id: &[u8]) -> Option<u32> {
    /// As many bytes of ones.
    const EACH: u64 = u64::MAX / 0xff;
    let digits = u64::from_be_bytes(*member_id.last_chunk::<SLOT_DIGITS>()?);
    // All eight at once: letters have bit 6, and their low bits count from 1.
    let values = (digits & (0x0f * EACH)) + ((digits >> 6) & EACH) * 9;
    let pairs = (values | values >> 4) & 0x00ff_00ff_00ff_00ff;
    let quads = (pairs | pairs >> 8) & 0x0000_ffff_0000_ffff;
    Some((quads | quads >> 16) as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_a_prefix_and_a_version_4_uuid_that_names_its_slot() {
        let id = mint("consumer-1", Entropy(u128::MAX), 0x0102_0304);
        assert_eq!(&*id, "consumer-1-ffffffff-ffff-4fff-bfff-ffff01020304");
        assert_eq!(hinted_slot(id.as_bytes()), Some(0x0102_0304));
        assert_eq!(&*mint("", Entropy(0), 0), "-00000000-0000-4000-8000-000000000000");
    }

    #[test]
    fn every_slot_is_found_again_in_its_id() {
        let slots = (0..32).flat_map(|bit| [1 << bit, (1_u32 << bit) - 1]).chain([u32::MAX, 0x89ab_cdef, 0x7654_3210]);
        for slot in slots {
            assert_eq!(hinted_slot(mint("c", Entropy(7), slot).as_bytes()), Some(slot));
        }
    }

    #[test]
    fn an_id_from_elsewhere_names_no_slot_or_just_any() {
        assert_eq!(["", "short12"].map(|id| hinted_slot(id.as_bytes())), [None; 2]);
        assert!(hinted_slot(b"member-of-another-WORLD").is_some() && hinted_slot(&[0xff; 8]).is_some());
    }
}
