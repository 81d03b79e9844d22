//! A member's id, stored within the member, so that a comparison needs no further load.

use std::{fmt, ops::Deref, sync::Arc};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Bytes for an id within its member: a client id of 25 bytes, a hyphen and a UUID. Longer ids are on the heap.
const ROOM_BYTES: usize = 62;

/// A member id.
#[derive(Clone, PartialEq, Eq)]
pub struct MemberId(Place);

#[derive(Clone, PartialEq, Eq)]
enum Place {
    /// Length and bytes, padded with 0.
    Here(u8, [u8; ROOM_BYTES]),
    Elsewhere(Arc<str>),
}

impl MemberId {
    /// Returns the bytes of the id.
    pub fn as_bytes(&self) -> &[u8] {
        match &self.0 {
            Place::Here(length, bytes) => &bytes[..usize::from(*length)],
            Place::Elsewhere(id) => id.as_bytes(),
        }
    }

    /// Returns the id as shared memory that may outlive the member.
    pub fn shared(&self) -> Arc<str> {
        match &self.0 {
            Place::Here(..) => (**self).into(),
            Place::Elsewhere(id) => Arc::clone(id),
        }
    }
}

impl Deref for MemberId {
    type Target = str;

    fn deref(&self) -> &str {
        match &self.0 {
            Place::Here(..) => str::from_utf8(self.as_bytes()).expect("an id is made of text"),
            Place::Elsewhere(id) => id,
        }
    }
}

impl From<&str> for MemberId {
    fn from(id: &str) -> MemberId {
        let mut bytes = [0; ROOM_BYTES];
        MemberId(match bytes.get_mut(..id.len()) {
            Some(room) => {
                room.copy_from_slice(id.as_bytes());
                Place::Here(id.len() as u8, bytes)
            }
            None => Place::Elsewhere(id.into()),
        })
    }
}

impl fmt::Debug for MemberId {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, out)
    }
}

impl fmt::Display for MemberId {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&**self, out)
    }
}

/// Serializes as a string.
impl Serialize for MemberId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self)
    }
}

impl<'de> Deserialize<'de> for MemberId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<MemberId, D::Error> {
        Ok(MemberId::from(&*String::deserialize(deserializer)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_of_any_length_is_the_same_text_again() {
        for id in ["", "c", "é", &"m".repeat(ROOM_BYTES), &"m".repeat(ROOM_BYTES + 1), &"é".repeat(40)] {
            let kept = MemberId::from(id);
            assert_eq!((&*kept, kept.as_bytes(), &*kept.shared()), (id, id.as_bytes(), id));
            assert_eq!((kept.to_string(), format!("{kept:?}")), (id.to_owned(), format!("{id:?}")));
            assert_eq!(kept, MemberId::from(id));
            assert_ne!(kept, MemberId::from(&*format!("{id}\0")));
            let stored = postcard::to_allocvec(&kept).unwrap();
            assert_eq!(stored, postcard::to_allocvec(id).unwrap());
            assert_eq!(postcard::from_bytes::<MemberId>(&stored).unwrap(), kept);
        }
    }

    #[test]
    fn an_id_is_one_cache_line_wherever_it_lies() {
        assert_eq!(size_of::<MemberId>(), 64);
    }
}
