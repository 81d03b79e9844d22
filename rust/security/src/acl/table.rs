//! A set of ACLs, found by the resources that they name.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    binding::{Binding, WILDCARD},
    filter::Filter,
    vocabulary::{PatternType, ResourceType},
};

/// The ACLs of one type of resource, by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct OfType {
    literal: BTreeMap<String, BTreeSet<Binding>>,
    prefixed: BTreeMap<String, BTreeSet<Binding>>,
    /// Length of the longest prefix in bytes.
    longest_prefix: usize,
}

/// A set of ACLs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AclTable {
    by_type: BTreeMap<ResourceType, OfType>,
    count: usize,
}

impl FromIterator<Binding> for AclTable {
    fn from_iter<T: IntoIterator<Item = Binding>>(bindings: T) -> AclTable {
        let mut table = AclTable::default();
        for binding in bindings {
            table.add(binding);
        }
        table
    }
}

impl AclTable {
    /// Adds an ACL. Returns whether it is new.
    pub fn add(&mut self, binding: Binding) -> bool {
        let of_type = self.by_type.entry(binding.pattern.resource).or_default();
        let by_name = match binding.pattern.kind {
            PatternType::Literal => &mut of_type.literal,
            PatternType::Prefixed => {
                of_type.longest_prefix = of_type.longest_prefix.max(binding.pattern.name.len());
                &mut of_type.prefixed
            }
        };
        let added = by_name.entry(binding.pattern.name.clone()).or_default().insert(binding);
        self.count += usize::from(added);
        added
    }

    /// Returns the table without the ACLs that a filter names.
    #[must_use]
    pub fn without(&self, filters: &[Filter]) -> AclTable {
        self.iter().filter(|binding| !filters.iter().any(|filter| filter.names(binding))).cloned().collect()
    }

    /// Returns every ACL, by type, literal names first.
    pub fn iter(&self) -> impl Iterator<Item = &Binding> {
        self.by_type.values().flat_map(OfType::iter)
    }

    /// Returns the number of ACLs.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Returns the ACLs that name a resource: first those with its name and its prefixes, longest first, then those of
    /// all resources. Kafka looks at them in this order.
    pub(super) fn naming<'t, 'n>(
        &'t self,
        resource: ResourceType,
        name: &'n str,
    ) -> impl Iterator<Item = &'t Binding> + use<'t, 'n> {
        let of_type = self.by_type.get(&resource);
        let literal = of_type.and_then(|of_type| of_type.literal.get(name));
        let longest = of_type.map_or(0, |of_type| of_type.longest_prefix).min(name.len());
        let prefixes = (1..=longest).rev().filter_map(move |end| of_type?.prefixed.get(name.get(..end)?));
        let all = of_type.filter(|_| name != WILDCARD).and_then(|of_type| of_type.literal.get(WILDCARD));
        literal.into_iter().chain(prefixes).chain(all).flatten()
    }

    /// Returns the ACLs of one type.
    pub(super) fn of_type(&self, resource: ResourceType) -> impl Iterator<Item = &Binding> {
        self.by_type.get(&resource).into_iter().flat_map(OfType::iter)
    }
}

impl OfType {
    fn iter(&self) -> impl Iterator<Item = &Binding> {
        self.literal.values().chain(self.prefixed.values()).flatten()
    }
}
