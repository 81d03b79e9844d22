//! Rules for topic names.

use std::fmt;

/// Maximum characters of a name.
const NAME_CHARS_MAX: usize = 249;

/// Why a name is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameError {
    /// "".
    Empty,
    /// "." or "..".
    Dots,
    /// More than 249 characters.
    TooLong,
    /// A character other than ASCII letters, digits, `.`, `_` and `-`.
    BadCharacter,
}

impl fmt::Display for NameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NameError::Empty => write!(f, "a topic name cannot be empty"),
            NameError::Dots => write!(f, "a topic name cannot be `.` or `..`"),
            NameError::TooLong => write!(f, "a topic name has at most {NAME_CHARS_MAX} characters"),
            NameError::BadCharacter => {
                write!(f, "a topic name consists of ASCII letters, digits, `.`, `_` and `-`")
            }
        }
    }
}

impl std::error::Error for NameError {}

/// Checks a topic name by Kafka's rules, in Kafka's order.
pub fn check_name(name: &str) -> Result<(), NameError> {
    let legal = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    match name {
        "" => Err(NameError::Empty),
        "." | ".." => Err(NameError::Dots),
        _ if name.chars().count() > NAME_CHARS_MAX => Err(NameError::TooLong),
        _ if !name.bytes().all(legal) => Err(NameError::BadCharacter),
        _ => Ok(()),
    }
}

/// Returns the name in metrics, which must be unique: `.` and `_` are the same there.
pub(super) fn metric_name(name: &str) -> String {
    name.replace('.', "_")
}
