//! An ACL, and its form as a line of a file.

use std::{fmt, str::FromStr};

use super::vocabulary::{Operation, PatternType, Permission, ResourceType};

/// The name that stands for all resources, all hosts, or after `User:` for everyone.
pub const WILDCARD: &str = "*";
/// The principal of ACLs that concern everyone.
pub const EVERYONE: &str = "User:*";
/// The only name of a resource of type [`ResourceType::Cluster`].
pub const CLUSTER_NAME: &str = "kafka-cluster";

/// The resources of an ACL.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Pattern {
    /// Their type.
    pub resource: ResourceType,
    /// Their name, or how it begins.
    pub name: String,
    /// What `name` is.
    pub kind: PatternType,
}

/// An ACL. The order of the fields is the order in which Kafka compares ACLs of one name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Binding {
    /// The resources.
    pub pattern: Pattern,
    /// Whom it concerns, such as `User:ana`.
    pub principal: String,
    /// Where from: an address, or `*`.
    pub host: String,
    /// The operation.
    pub operation: Operation,
    /// Whether it allows or denies.
    pub permission: Permission,
}

/// Why an ACL is refused, in Kafka's words where it has some.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BadBinding {
    /// The principal has no type.
    Principal(String),
    /// The name is empty.
    EmptyName,
    /// The cluster has another name.
    ClusterName(String),
    /// The host is empty.
    EmptyHost,
    /// A line of a file is malformed.
    Line(String),
}

impl fmt::Display for BadBinding {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BadBinding::Principal(principal) => write!(
                out,
                "Could not parse principal from `{principal}` (no colon is present separating the principal type from \
                 the principal name)"
            ),
            BadBinding::EmptyName => write!(out, "Invalid empty resource name"),
            BadBinding::ClusterName(_) => write!(out, "The only valid name for the CLUSTER resource is {CLUSTER_NAME}"),
            BadBinding::EmptyHost => write!(out, "Host pattern cannot be null or empty"),
            BadBinding::Line(reason) => write!(out, "{reason}"),
        }
    }
}

impl std::error::Error for BadBinding {}

impl Binding {
    /// Checks what `CreateAcls` checks, in Kafka's order.
    pub fn check(&self) -> Result<(), BadBinding> {
        let Pattern { resource, name, .. } = &self.pattern;
        if *resource == ResourceType::Cluster && name != CLUSTER_NAME {
            Err(BadBinding::ClusterName(name.clone()))
        } else if name.is_empty() {
            Err(BadBinding::EmptyName)
        } else if !self.principal.contains(':') {
            Err(BadBinding::Principal(self.principal.clone()))
        } else if self.host.is_empty() {
            Err(BadBinding::EmptyHost)
        } else {
            Ok(())
        }
    }

    /// Whether it concerns a client.
    pub fn concerns(&self, principal: &str, host: &str) -> bool {
        (self.principal == principal || self.principal == EVERYONE) && (self.host == host || self.host == WILDCARD)
    }

    /// Whether it decides about `operation`: only what is allowed implies something.
    pub fn decides(&self, operation: Operation) -> bool {
        match self.permission {
            Permission::Allow => self.operation.implies(operation),
            Permission::Deny => self.operation == operation || self.operation == Operation::All,
        }
    }
}

/// As in Kafka's log of denials.
impl fmt::Display for Binding {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Binding { pattern, principal, host, operation, permission } = self;
        write!(
            out,
            "StandardAcl[resourceType={}, resourceName={}, patternType={}, principal={principal}, host={host}, \
             operation={}, permissionType={}]",
            pattern.resource.name(),
            pattern.name,
            pattern.kind.name(),
            operation.name(),
            permission.name()
        )
    }
}

/// The form of a line, for messages.
pub const LINE_FORM: &str = "expected `PERMISSION PRINCIPAL HOST OPERATION TYPE PATTERN NAME`, such as \
                             `ALLOW User:ana * READ TOPIC LITERAL orders`";

/// Reads the words of a line. Blanks in principal and name are written `%20`, `%` is written `%25`.
impl FromStr for Binding {
    type Err = BadBinding;

    fn from_str(line: &str) -> Result<Binding, BadBinding> {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [permission, principal, host, operation, resource, kind, name] = words[..] else {
            return Err(BadBinding::Line(LINE_FORM.to_owned()));
        };
        let unknown = |what: &str, word: &str, known: Vec<&str>| {
            BadBinding::Line(format!("the {what} is `{word}`, expected one of {}", known.join(", ")))
        };
        let names = |names: &mut dyn Iterator<Item = &'static str>| names.collect::<Vec<_>>();
        let escaped = |word: &str| {
            unescaped(word)
                .ok_or_else(|| BadBinding::Line(format!("`{word}` has a `%` without two digits: write `%25`")))
        };
        let pattern = Pattern {
            resource: ResourceType::named(resource).ok_or_else(|| {
                unknown("resource type", resource, names(&mut ResourceType::ALL.iter().map(|word| word.name())))
            })?,
            name: escaped(name)?,
            kind: PatternType::named(kind).ok_or_else(|| {
                unknown("pattern type", kind, names(&mut PatternType::ALL.iter().map(|word| word.name())))
            })?,
        };
        let binding = Binding {
            pattern,
            principal: escaped(principal)?,
            // A line that was written by hand may have the `%` of an address with a zone as it is.
            host: unescaped(host).unwrap_or_else(|| host.to_owned()),
            operation: Operation::named(operation).ok_or_else(|| {
                unknown("operation", operation, names(&mut Operation::ALL.iter().map(|word| word.name())))
            })?,
            permission: Permission::named(permission).ok_or_else(|| {
                unknown("permission", permission, names(&mut Permission::ALL.iter().map(|word| word.name())))
            })?,
        };
        binding.check()?;
        Ok(binding)
    }
}

impl Binding {
    /// Returns the ACL as a line that [`Binding::from_str`] reads.
    pub fn line(&self) -> String {
        let Pattern { resource, name, kind } = &self.pattern;
        let words = [
            self.permission.name(),
            &escaped(&self.principal),
            &escaped(&self.host),
            self.operation.name(),
            resource.name(),
            kind.name(),
            &escaped(name),
        ];
        words.join(" ")
    }
}

/// Reads the ACLs of a file: one a line. Empty lines and lines that begin with `#` are skipped. Errors: the number of
/// the first wrong line, from 1, and the reason.
pub fn read_lines(text: &str) -> Result<Vec<Binding>, (usize, BadBinding)> {
    let lines = (1..).zip(text.lines()).map(|(number, line)| (number, line.trim()));
    let wanted = lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
    wanted.map(|(number, line)| line.parse().map_err(|error| (number, error))).collect()
}

fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for char in text.chars() {
        if char == '%' || char.is_whitespace() || char.is_control() {
            let mut bytes = [0; 4];
            escaped.extend(char.encode_utf8(&mut bytes).bytes().map(|byte| format!("%{byte:02x}")));
        } else {
            escaped.push(char);
        }
    }
    escaped
}

fn unescaped(text: &str) -> Option<String> {
    let mut parts = text.split('%');
    let mut bytes = parts.next()?.as_bytes().to_vec();
    for part in parts {
        bytes.push(u8::from_str_radix(part.get(..2)?, 16).ok()?);
        bytes.extend_from_slice(&part.as_bytes()[2..]);
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_read_as_it_was_written() {
        for name in ["orders", "*", "a b", "100%", "größe\t", "%20", "\u{2028}\n#"] {
            let line = format!("ALLOW User:ana * READ GROUP PREFIXED {}", escaped(name));
            let binding: Binding = line.parse().unwrap();
            assert_eq!((binding.pattern.name.as_str(), binding.line()), (name, line));
        }
        for host in ["*", "fe80:0:0:0:0:0:0:1%eth0", "a b", "%25"] {
            let line = format!("ALLOW User:ana {} READ GROUP LITERAL g", escaped(host));
            let binding: Binding = line.parse().unwrap();
            assert_eq!((binding.host.as_str(), binding.line()), (host, line));
        }
        let by_hand: Binding = "ALLOW User:ana fe80:0:0:0:0:0:0:1%eth0 READ GROUP LITERAL g".parse().unwrap();
        assert_eq!(by_hand.host, "fe80:0:0:0:0:0:0:1%eth0");
    }

    #[test]
    fn a_wrong_line_is_refused_with_its_number_and_what_was_expected() {
        let refused = |line: &str| {
            let (number, error) = read_lines(&format!("# whom\n\n{line}\n")).unwrap_err();
            assert_eq!(number, 3);
            error.to_string()
        };
        assert!(refused("ALLOW User:ana").starts_with("expected `PERMISSION PRINCIPAL HOST"));
        assert!(refused("ALLOW User:ana * READ THING LITERAL a").starts_with("the resource type is `THING`, expected"));
        assert!(refused("ALLOW User:ana * READ TOPIC MATCH a").contains("`MATCH`, expected one of LITERAL, PREFIXED"));
        assert!(refused("MAYBE User:ana * READ TOPIC LITERAL a").contains("expected one of DENY, ALLOW"));
        assert!(refused("ALLOW User:ana * EAT TOPIC LITERAL a").contains("the operation is `EAT`"));
        assert!(refused("ALLOW ana * READ TOPIC LITERAL a").contains("no colon is present"));
        assert!(refused("ALLOW User:ana * READ CLUSTER LITERAL a").ends_with("CLUSTER resource is kafka-cluster"));
        assert!(refused("ALLOW User:ana * READ TOPIC LITERAL a%").contains("write `%25`"));
    }
}
