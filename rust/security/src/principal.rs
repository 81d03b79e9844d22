//! The principal of a client: `User:` and the name of its user, or the subject of its certificate after
//! `ssl.principal.mapping.rules`.

use std::fmt;

use regex_lite::{Captures, Regex};

/// The principal of clients without user and certificate.
pub const ANONYMOUS: &str = "User:ANONYMOUS";

/// Returns the principal of a user.
pub fn of_user(name: &str) -> String {
    format!("User:{name}")
}

/// Why `ssl.principal.mapping.rules` are refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadRules {
    /// The rules from the wrong one on.
    pub rule: String,
    /// The reason.
    pub reason: String,
}

impl fmt::Display for BadRules {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            out,
            "`ssl.principal.mapping.rules` cannot be read from `{}` on: {}; expected rules such as \
             `RULE:^CN=([^,]+).*$/$1/L`, or `DEFAULT`, separated by commas",
            self.rule, self.reason
        )
    }
}

impl std::error::Error for BadRules {}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Case {
    Kept,
    Lower,
    Upper,
}

#[derive(Clone, Debug)]
enum Rule {
    /// The subject as it is.
    Default,
    /// A subject that `whole` matches: what `part` matches in it is replaced.
    Mapped { whole: Regex, part: Regex, replacement: String, case: Case },
}

/// The rules that make a name of a certificate's subject. The first that matches counts.
#[derive(Clone, Debug)]
pub struct MappingRules(Vec<Rule>);

impl Default for MappingRules {
    fn default() -> MappingRules {
        MappingRules(vec![Rule::Default])
    }
}

impl MappingRules {
    /// Reads `ssl.principal.mapping.rules`. Patterns have the syntax of the crate `regex`: without look-around and
    /// back-references.
    pub fn read(text: &str) -> Result<MappingRules, BadRules> {
        let mut rest = text.trim();
        let mut rules = Vec::new();
        while !rest.is_empty() {
            let bad = |reason: String| BadRules { rule: rest.to_owned(), reason };
            let after = if let Some(after) = rest.strip_prefix("DEFAULT") {
                rules.push(Rule::Default);
                after
            } else if let Some(rule) = rest.strip_prefix("RULE:") {
                let (pattern, after) = until_slash(rule).ok_or_else(|| bad("the pattern has no end".to_owned()))?;
                let (replacement, after) =
                    until_slash(after).ok_or_else(|| bad("the replacement has no end".to_owned()))?;
                let (case, after) = match after.as_bytes().first() {
                    Some(b'L') => (Case::Lower, &after[1..]),
                    Some(b'U') => (Case::Upper, &after[1..]),
                    _ => (Case::Kept, after),
                };
                let regex = |pattern: &str| Regex::new(pattern).map_err(|error| bad(error.to_string()));
                let (whole, part) = (regex(&format!("^(?:{pattern})$"))?, regex(pattern)?);
                rules.push(Rule::Mapped { whole, part, replacement: replacement.to_owned(), case });
                after
            } else {
                return Err(bad("it is neither `RULE:` nor `DEFAULT`".to_owned()));
            };
            let after = after.trim_start();
            rest = match after.strip_prefix(',') {
                Some(more) => more.trim_start(),
                None if after.is_empty() => after,
                None => return Err(bad(format!("`{after}` follows the rule"))),
            };
        }
        Ok(if rules.is_empty() { MappingRules::default() } else { MappingRules(rules) })
    }

    /// Returns the name of a subject; `None` if no rule matches, and the client must be refused.
    pub fn name(&self, subject: &str) -> Option<String> {
        self.0.iter().find_map(|rule| match rule {
            Rule::Default => Some(subject.to_owned()),
            Rule::Mapped { whole, part, replacement, case } => {
                let groups = part.captures_len() - 1;
                let replaced = |found: &Captures<'_>| replaced(replacement, groups, found);
                let name = whole.is_match(subject).then(|| part.replace_all(subject, replaced).into_owned())?;
                Some(match case {
                    Case::Kept => name,
                    Case::Lower => name.to_lowercase(),
                    Case::Upper => name.to_uppercase(),
                })
            }
        })
    }
}

/// Splits at the first `/` that has no `\` before it.
fn until_slash(text: &str) -> Option<(&str, &str)> {
    let mut is_escaped = false;
    let end = text.char_indices().find(|(_, char)| {
        let ends = *char == '/' && !is_escaped;
        is_escaped = *char == '\\' && !is_escaped;
        ends
    });
    end.map(|(at, _)| (&text[..at], &text[at + 1..]))
}

/// Returns the replacement with `$1` and so on replaced by groups. As in Java, `\` takes the next character as it is; a
/// group that does not exist stays as it is written.
fn replaced(replacement: &str, groups: usize, found: &Captures<'_>) -> String {
    let mut name = String::new();
    let mut chars = replacement.chars().peekable();
    while let Some(char) = chars.next() {
        match (char, chars.peek().and_then(|next| next.to_digit(10))) {
            ('\\', _) => name.extend(chars.next()),
            ('$', Some(digit)) if digit as usize <= groups => {
                let mut group = digit as usize;
                chars.next();
                while let Some(digit) = chars.peek().and_then(|next| next.to_digit(10)) {
                    let longer = group * 10 + digit as usize;
                    if longer > groups {
                        break;
                    }
                    group = longer;
                    chars.next();
                }
                name.push_str(found.get(group).map_or("", |group| group.as_str()));
            }
            _ => name.push(char),
        }
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    const DUKE: &str = "CN=Duke, OU=ServiceUsers, O=Org, C=US";

    fn name(rules: &str, subject: &str) -> Option<String> {
        MappingRules::read(rules).unwrap().name(subject)
    }

    /// Java replaces the empty text behind a match, too (docs/departures.md).
    #[test]
    fn a_rule_is_applied_once_to_what_it_matches() {
        assert_eq!(name("RULE:(.*)/u-$1/", "CN=ana").as_deref(), Some("u-CN=ana"));
    }

    #[test]
    fn rules_map_as_in_kafkas_documentation() {
        let rules = "RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/, RULE:^CN=(.*?),OU=(.*?),O=(.*?),L=(.*?),ST=(.*?),C=(.*?)$/$1@$2/L, \
                     RULE:^.*[Cc][Nn]=([a-zA-Z0-9.]*).*$/$1/L, DEFAULT";
        let mapped = |subject: &str| name(rules, subject).unwrap();
        assert_eq!(mapped("CN=serviceuser,OU=ServiceUsers,O=Unknown,L=Unknown,ST=Unknown,C=Unknown"), "serviceuser");
        assert_eq!(mapped("CN=adminUser,OU=Admin,O=Unknown,L=Unknown,ST=Unknown,C=Unknown"), "adminuser@admin");
        assert_eq!(mapped("cn=JohnDoe,ou=x"), "johndoe");
        assert_eq!(mapped("UID=u"), "UID=u");
    }

    #[test]
    fn only_a_rule_that_matches_the_whole_subject_counts() {
        assert_eq!(name("RULE:CN=Duke/d/", DUKE), None);
        assert_eq!(name("RULE:^CN=(.*?), OU=(.*?),.*$/$2-$1/U", DUKE).as_deref(), Some("SERVICEUSERS-DUKE"));
        assert_eq!(name("", DUKE).as_deref(), Some(DUKE));
        assert_eq!(name("DEFAULT", DUKE).as_deref(), Some(DUKE));
    }

    #[test]
    fn a_group_that_does_not_exist_and_escapes_are_texts() {
        assert_eq!(name("RULE:^CN=(.*)$/$2\\$1\\/$12/", "CN=a").as_deref(), Some("$2$1/a2"));
        assert_eq!(name("RULE:^CN=a\\/b$/x/", "CN=a/b").as_deref(), Some("x"));
    }

    #[test]
    fn wrong_rules_are_refused_with_the_place_and_the_form() {
        let refused = |rules: &str| MappingRules::read(rules).unwrap_err().to_string();
        assert!(
            refused("DEFAULT, RULE:a").contains("from `RULE:a` on: the pattern has no end; expected rules such as")
        );
        assert!(refused("RULE:a/b").contains("the replacement has no end"));
        assert!(refused("RULE:a/b/X").contains("`X` follows the rule"));
        assert!(refused("RULES").contains("neither `RULE:` nor `DEFAULT`"));
        assert!(refused("RULE:(/b/").contains("from `RULE:(/b/` on: "));
        assert!(refused("RULE:(?=a)/b/").contains("from `RULE:(?=a)/b/` on: "));
    }
}
