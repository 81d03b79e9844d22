//! What a client may do.

use std::{collections::HashMap, rc::Rc, sync::Arc};

use rota_security::acl::{Authorizer, CLUSTER_NAME, Operation, ResourceType, Subject, operation_bits};
use rota_wire::versions::Api;

use super::Client;
use crate::base::denials::Denials;

/// What the client of a request may do. Without an authorizer, everything.
#[derive(Clone, Debug)]
pub struct Access(Option<Checked>);

#[derive(Clone, Debug)]
struct Checked {
    authorizer: Arc<Authorizer>,
    denials: Arc<Denials>,
    client: Rc<Client>,
    api: &'static Api,
}

impl Access {
    /// Allows everything.
    pub const OPEN: Access = Access(None);

    /// Creates the access of the client of a request.
    pub fn checked(
        authorizer: Arc<Authorizer>,
        denials: Arc<Denials>,
        client: &Rc<Client>,
        api: &'static Api,
    ) -> Access {
        Access(Some(Checked { authorizer, denials, client: Rc::clone(client), api }))
    }

    /// Whether everything is allowed without a check.
    pub fn is_open(&self) -> bool {
        self.0.is_none()
    }

    /// Whether an operation on a resource is allowed; a denial is logged.
    pub fn allows(&self, operation: Operation, resource: ResourceType, name: &str) -> bool {
        self.allows_counted(operation, resource, name, 1)
    }

    /// Like [`Access::allows`] for a request that names the resource `count` times.
    pub fn allows_counted(&self, operation: Operation, resource: ResourceType, name: &str, count: usize) -> bool {
        let Some(checked) = &self.0 else { return true };
        let decision = checked.authorizer.decide(checked.subject(), operation, resource, name);
        if !decision.is_allowed() {
            let Subject { principal, host } = checked.subject();
            checked.denials.record(format!(
                "Principal = {principal} is Denied operation = {} from host = {host} on resource = {}:LITERAL:{name} \
                 for request = {} with resourceRefCount = {count} based on rule {decision}",
                operation.name(),
                resource.title(),
                checked.api.name,
            ));
        }
        decision.is_allowed()
    }

    /// Whether an operation on the cluster is allowed; a denial is logged.
    pub fn allows_on_cluster(&self, operation: Operation) -> bool {
        self.allows(operation, ResourceType::Cluster, CLUSTER_NAME)
    }

    /// Whether an operation on a resource is allowed. A denial is not logged: the client has not asked for it.
    pub fn may(&self, operation: Operation, resource: ResourceType, name: &str) -> bool {
        let Some(checked) = &self.0 else { return true };
        checked.authorizer.allows(checked.subject(), operation, resource, name)
    }

    /// Whether the client may do the operation on some resource of this type.
    pub fn may_somewhere(&self, operation: Operation, resource: ResourceType) -> bool {
        let Some(checked) = &self.0 else { return true };
        checked.authorizer.allows_somewhere(checked.subject(), operation, resource)
    }

    /// Returns the allowed operations on a resource as bits.
    pub fn operations(&self, resource: ResourceType, name: &str) -> i32 {
        operation_bits(resource, |operation| self.may(operation, resource, name))
    }

    /// Returns the allowed operations on the cluster as bits, for a client that may describe it; 0 for another.
    pub fn cluster_operations(&self) -> i32 {
        if self.allows_on_cluster(Operation::Describe) {
            self.operations(ResourceType::Cluster, CLUSTER_NAME)
        } else {
            0
        }
    }

    /// Like [`Access::split_topics`] for requests that may name a topic once. As in Kafka, names that are repeated are not
    /// checked: they are refused whatever the rights.
    pub fn split_single_topics<T>(
        &self,
        operation: Operation,
        items: Vec<T>,
        name: impl Fn(&T) -> &str,
    ) -> (Vec<T>, Vec<T>) {
        if self.is_open() {
            return (items, Vec::new());
        }
        let mut mentions: HashMap<String, usize> = HashMap::new();
        for item in &items {
            *mentions.entry(name(item).to_owned()).or_default() += 1;
        }
        items.into_iter().partition(|item| {
            let name = name(item);
            mentions[name] > 1 || self.allows(operation, ResourceType::Topic, name)
        })
    }

    /// Splits `items` into those whose topic the client may use, and the others.
    pub fn split_topics<T>(
        &self,
        operation: Operation,
        items: Vec<T>,
        topic: impl Fn(&T) -> (&str, usize),
    ) -> (Vec<T>, Vec<T>) {
        if self.is_open() {
            return (items, Vec::new());
        }
        items.into_iter().partition(|item| {
            let (name, count) = topic(item);
            self.allows_counted(operation, ResourceType::Topic, name, count)
        })
    }
}

impl Checked {
    fn subject(&self) -> Subject<'_> {
        Subject { principal: self.client.principal(), host: self.client.address() }
    }
}
