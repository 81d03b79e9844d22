//! Member ids: a prefix and a UUID whose last 32 bits name the member's slot (docs/protocol.md §4.5).

use std::sync::Arc;

use crate::request::Entropy;

/// A version-4 UUID has these bits fixed: version 4, variant 10.
const VERSION_AND_VARIANT_MASK: u128 = 0xf000 << 64 | 0xc000 << 48;
const VERSION_AND_VARIANT: u128 = 0x4000 << 64 | 0x8000 << 48;
const SLOT_DIGITS: usize = 8;

/// `prefix-UUID`; the prefix is the client id, or the instance id of a static member.
pub fn mint(prefix: &str, entropy: Entropy, slot: u32) -> Arc<str> {
    let random = entropy.0 & !VERSION_AND_VARIANT_MASK & !u128::from(u32::MAX);
    let hex = format!("{:032x}", random | VERSION_AND_VARIANT | u128::from(slot));
    format!("{prefix}-{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]).into()
}

/// The slot that an id names, if its end looks like one.
pub fn hinted_slot(member_id: &str) -> Option<u32> {
    let bytes = member_id.as_bytes();
    let digits = &bytes[bytes.len().checked_sub(SLOT_DIGITS)?..];
    digits.iter().try_fold(0, |slot: u32, digit| {
        let value = match digit {
            b'0'..=b'9' => digit - b'0',
            b'a'..=b'f' => digit - b'a' + 10,
            _ => return None,
        };
        Some(slot << 4 | u32::from(value))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_a_prefix_and_a_version_4_uuid_that_names_its_slot() {
        let id = mint("consumer-1", Entropy(u128::MAX), 0x0102_0304);
        assert_eq!(&*id, "consumer-1-ffffffff-ffff-4fff-bfff-ffff01020304");
        assert_eq!(hinted_slot(&id), Some(0x0102_0304));
        assert_eq!(&*mint("", Entropy(0), 0), "-00000000-0000-4000-8000-000000000000");
    }

    #[test]
    fn an_id_from_elsewhere_may_name_no_slot() {
        assert_eq!(["", "short", "member-of-another-WORLD"].map(hinted_slot), [None; 3]);
    }
}
