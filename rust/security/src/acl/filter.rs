//! Filters of `DescribeAcls` and `DeleteAcls`.

use super::{
    binding::{Binding, Pattern, WILDCARD},
    vocabulary::{Operation, PatternType, Permission, ResourceType},
};

/// Which patterns a filter names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PatternFilter {
    /// Those with the filter's name, whatever their type.
    Any,
    /// Those that apply to the resource with the filter's name.
    Match,
    /// Those of this type with the filter's name.
    Of(PatternType),
}

impl PatternFilter {
    const ANY: i8 = 1;
    const MATCH: i8 = 2;

    /// Returns the filter with this number.
    pub fn of_code(code: i8) -> Option<PatternFilter> {
        match code {
            PatternFilter::ANY => Some(PatternFilter::Any),
            PatternFilter::MATCH => Some(PatternFilter::Match),
            _ => PatternType::of_code(code).map(PatternFilter::Of),
        }
    }
}

/// Names ACLs; `None` names all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Filter {
    /// The type of their resources.
    pub resource: Option<ResourceType>,
    /// The name of their resources.
    pub name: Option<String>,
    /// What `name` is.
    pub kind: PatternFilter,
    /// Their principal.
    pub principal: Option<String>,
    /// Their host.
    pub host: Option<String>,
    /// Their operation.
    pub operation: Option<Operation>,
    /// What they do.
    pub permission: Option<Permission>,
}

impl Filter {
    /// Names every ACL.
    pub const ALL: Filter = Filter {
        resource: None,
        name: None,
        kind: PatternFilter::Any,
        principal: None,
        host: None,
        operation: None,
        permission: None,
    };

    /// Whether it names an ACL.
    pub fn names(&self, binding: &Binding) -> bool {
        let Binding { pattern, principal, host, operation, permission } = binding;
        self.resource.is_none_or(|resource| resource == pattern.resource)
            && self.names_pattern(pattern)
            && self.principal.as_ref().is_none_or(|wanted| wanted == principal)
            && self.host.as_ref().is_none_or(|wanted| wanted == host)
            && self.operation.is_none_or(|wanted| wanted == *operation)
            && self.permission.is_none_or(|wanted| wanted == *permission)
    }

    fn names_pattern(&self, pattern: &Pattern) -> bool {
        if matches!(self.kind, PatternFilter::Of(kind) if kind != pattern.kind) {
            return false;
        }
        let Some(name) = &self.name else { return true };
        match (self.kind, pattern.kind) {
            (PatternFilter::Match, PatternType::Literal) => pattern.name == *name || pattern.name == WILDCARD,
            (PatternFilter::Match, PatternType::Prefixed) => name.starts_with(&pattern.name),
            _ => pattern.name == *name,
        }
    }
}
