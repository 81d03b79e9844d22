//! Hints for unknown names: the closest existing name, or the existing names.

use std::fmt;

/// Maximum compared characters of a name, since member ids and group ids may be long.
const COMPARED_CHARS: usize = 256;
/// Minimum length of a name that counts as part of a longer one.
const PART_CHARS_MIN: usize = 4;
/// Maximum names in a hint.
const LISTED_MAX: usize = 16;
const EXAMPLES: usize = 3;

/// How much two names may differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Likeness {
    /// A third of the characters may differ, or one name is part of the other: enough for a suggestion.
    Close,
    /// A fifth of the characters may differ: the name is very probably a misspelling.
    Misspelt,
}

/// Returns the name with the fewest edits from `name`, ignoring case; `None` if none is close enough.
pub fn nearest<'n>(name: &str, names: impl IntoIterator<Item = &'n str>, likeness: Likeness) -> Option<&'n str> {
    let wanted = compared(name);
    let close = names.into_iter().filter_map(|known| {
        let found = compared(known);
        let edits = edits(&wanted, &found);
        let longer = wanted.len().max(found.len());
        let is_close = match likeness {
            Likeness::Close => edits <= longer / 3 || is_part(&wanted, &found),
            Likeness::Misspelt => edits <= (longer + 1) / 5,
        };
        is_close.then_some((edits, known))
    });
    close.min_by_key(|(edits, _)| *edits).map(|(_, known)| known)
}

fn compared(name: &str) -> Vec<char> {
    name.chars().flat_map(char::to_lowercase).take(COMPARED_CHARS).collect()
}

fn is_part(wanted: &[char], known: &[char]) -> bool {
    wanted.len() >= PART_CHARS_MIN && known.windows(wanted.len()).any(|part| part == wanted)
}

/// Returns the edit distance of two names: insertions, removals and replacements.
fn edits(from: &[char], to: &[char]) -> usize {
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (above, from) in from.iter().enumerate() {
        let mut diagonal = row[0];
        row[0] = above + 1;
        for (index, to) in to.iter().enumerate() {
            let replaced = diagonal + usize::from(from != to);
            diagonal = row[index + 1];
            row[index + 1] = replaced.min(row[index] + 1).min(diagonal + 1);
        }
    }
    row[to.len()]
}

/// The hint in an error about an unknown name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Hint {
    /// The closest name.
    Nearest(String),
    /// No name is close. These are all existing names, or some of `count`.
    Known {
        /// The names, in the order given.
        names: Vec<String>,
        /// The number of existing names.
        count: usize,
    },
}

impl Hint {
    /// Creates the hint for `name`, which is not among `names`.
    pub fn new<'n>(name: &str, names: impl IntoIterator<Item = &'n str>) -> Hint {
        let names: Vec<&str> = names.into_iter().collect();
        if let Some(found) = nearest(name, names.iter().copied(), Likeness::Close) {
            return Hint::Nearest(found.to_owned());
        }
        let listed = if names.len() > LISTED_MAX { EXAMPLES } else { names.len() };
        Hint::Known { names: names[..listed].iter().map(ToString::to_string).collect(), count: names.len() }
    }
}

impl fmt::Display for Hint {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (names, count) = match self {
            Hint::Nearest(name) => return write!(out, "the nearest one is `{name}`"),
            Hint::Known { names, count } => (names, *count),
        };
        let listed = names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
        match names.len() {
            0 => write!(out, "there are none at all"),
            1 => write!(out, "there is only {listed}"),
            some if some < count => write!(out, "there are {count}, such as {listed}"),
            _ => write!(out, "there are {listed}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close<'n>(name: &str, names: &[&'n str]) -> Option<&'n str> {
        nearest(name, names.iter().copied(), Likeness::Close)
    }

    #[test]
    fn a_name_is_suggested_only_if_it_is_close() {
        assert_eq!(close("NOT_COORDINATR", &["NONE", "NOT_COORDINATOR"]), Some("NOT_COORDINATOR"));
        assert_eq!(close("FOO", &["NONE", "NOT_COORDINATOR"]), None);
        assert_eq!(close("writers", &["readers"]), None);
        assert_eq!(close("fetch", &["Produce", "Fetch"]), Some("Fetch"));
        assert_eq!(close("x", &[]), None);
    }

    #[test]
    fn a_part_of_a_name_is_close_unless_it_is_short() {
        let known = ["group.max.session.timeout.ms", "offsets.retention.minutes"];
        assert_eq!(close("session.timeout", &known), Some(known[0]));
        assert_eq!(close("min", &known), None);
    }

    #[test]
    fn a_misspelling_differs_in_a_fifth_at_most() {
        let misspelt = |name, known| nearest(name, [known], Likeness::Misspelt);
        assert_eq!(misspelt("GROUP_MAX_SIZ", "GROUP_MAX_SIZE"), Some("GROUP_MAX_SIZE"));
        assert_eq!(misspelt("HTP", "HTTP"), Some("HTTP"));
        assert_eq!(misspelt("PORT", "HTTP"), None);
        assert_eq!(misspelt("SIZE", "GROUP_MAX_SIZE"), None);
    }

    #[test]
    fn a_hint_is_the_nearest_name_or_what_there_is() {
        let many: Vec<String> = (0..17).map(|number| format!("group-{number}")).collect();
        let hint = |name, known: &[&str]| Hint::new(name, known.iter().copied()).to_string();
        assert_eq!(hint("order", &["orders", "readers"]), "the nearest one is `orders`");
        assert_eq!(hint("x", &[]), "there are none at all");
        assert_eq!(hint("x", &["orders"]), "there is only `orders`");
        assert_eq!(hint("x", &["orders", "readers"]), "there are `orders`, `readers`");
        let of_many = Hint::new("x", many.iter().map(String::as_str)).to_string();
        assert_eq!(of_many, "there are 17, such as `group-0`, `group-1`, `group-2`");
    }
}
