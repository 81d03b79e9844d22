//! The words of ACLs, with Kafka's names and the numbers of the protocol.

macro_rules! words {
    ($(#[$doc:meta])* $name:ident { $($(#[$of:meta])* $variant:ident = $code:literal, $text:literal;)+ }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(i8)]
        pub enum $name { $($(#[$of])* $variant = $code,)+ }

        impl $name {
            /// Every value, by number.
            pub const ALL: &'static [$name] = &[$($name::$variant,)+];

            /// Returns the number in requests and answers.
            pub const fn code(self) -> i8 {
                self as i8
            }

            /// Returns Kafka's name.
            pub const fn name(self) -> &'static str {
                match self { $($name::$variant => $text,)+ }
            }

            /// Returns the value with this number.
            pub fn of_code(code: i8) -> Option<$name> {
                $name::ALL.iter().copied().find(|value| value.code() == code)
            }

            /// Returns the value with this name; case does not matter.
            pub fn named(name: &str) -> Option<$name> {
                $name::ALL.iter().copied().find(|value| value.name().eq_ignore_ascii_case(name))
            }
        }
    };
}

words! {
    /// The type of a resource.
    ResourceType {
        /// A topic.
        Topic = 2, "TOPIC";
        /// A group.
        Group = 3, "GROUP";
        /// The cluster.
        Cluster = 4, "CLUSTER";
        /// A transactional id.
        TransactionalId = 5, "TRANSACTIONAL_ID";
        /// A delegation token.
        DelegationToken = 6, "DELEGATION_TOKEN";
        /// A user.
        User = 7, "USER";
    }
}

impl ResourceType {
    /// Returns the name in Kafka's log of denials, such as `Topic`.
    pub const fn title(self) -> &'static str {
        match self {
            ResourceType::Topic => "Topic",
            ResourceType::Group => "Group",
            ResourceType::Cluster => "Cluster",
            ResourceType::TransactionalId => "TransactionalId",
            ResourceType::DelegationToken => "DelegationToken",
            ResourceType::User => "User",
        }
    }
}

words! {
    /// What a client does with a resource.
    Operation {
        /// Every operation, in an ACL.
        All = 2, "ALL";
        /// Read messages and offsets, be a member.
        Read = 3, "READ";
        /// Write messages.
        Write = 4, "WRITE";
        /// Create.
        Create = 5, "CREATE";
        /// Delete.
        Delete = 6, "DELETE";
        /// Alter.
        Alter = 7, "ALTER";
        /// Learn that it exists, and its state.
        Describe = 8, "DESCRIBE";
        /// Requests of brokers.
        ClusterAction = 9, "CLUSTER_ACTION";
        /// Read its settings.
        DescribeConfigs = 10, "DESCRIBE_CONFIGS";
        /// Change its settings.
        AlterConfigs = 11, "ALTER_CONFIGS";
        /// Write idempotently.
        IdempotentWrite = 12, "IDEMPOTENT_WRITE";
        /// Create a delegation token.
        CreateTokens = 13, "CREATE_TOKENS";
        /// Describe a delegation token.
        DescribeTokens = 14, "DESCRIBE_TOKENS";
        /// Two-phase commit of a transaction.
        TwoPhaseCommit = 15, "TWO_PHASE_COMMIT";
    }
}

impl Operation {
    /// Whether an ACL that allows this operation allows `asked`, too.
    pub fn implies(self, asked: Operation) -> bool {
        use Operation::{All, Alter, AlterConfigs, Delete, Describe, DescribeConfigs, Read, Write};
        self == asked
            || self == All
            || match asked {
                Describe => matches!(self, Read | Write | Delete | Alter),
                DescribeConfigs => self == AlterConfigs,
                _ => false,
            }
    }
}

words! {
    /// Whether an ACL allows or denies.
    Permission {
        /// Denies; stronger than any that allows.
        Deny = 2, "DENY";
        /// Allows.
        Allow = 3, "ALLOW";
    }
}

words! {
    /// How the name of an ACL names resources.
    PatternType {
        /// The resource with this name; `*` names all.
        Literal = 3, "LITERAL";
        /// The resources whose names begin so.
        Prefixed = 4, "PREFIXED";
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_is_found_by_its_name_and_number() {
        for operation in Operation::ALL {
            assert_eq!(Operation::named(&operation.name().to_lowercase()), Some(*operation));
            assert_eq!(Operation::of_code(operation.code()), Some(*operation));
        }
        // UNKNOWN, and ANY or MATCH of filters.
        for code in [0, 1] {
            assert_eq!(Operation::of_code(code), None);
            assert_eq!(ResourceType::of_code(code), None);
            assert_eq!(Permission::of_code(code), None);
            assert_eq!(PatternType::of_code(code), None);
        }
    }
}
