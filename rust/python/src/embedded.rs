//! The embedded consumer protocol: Subscription and Assignment as frozen Python classes.

use pyo3::prelude::*;
use rota_core::embedded;

use crate::{
    errors::EmbeddedError,
    plain::plain,
    values::{Octets, Tuple},
};

/// (topic, partitions).
type TopicPartitions = (String, Tuple<i32>);

plain! {
    /// A consumer's subscription when it joins.
    Subscription {
        /// Topics in the writer's order.
        topics: Tuple<String>,
        /// User data of the assignor.
        user_data: Option<Octets>,
        /// Owned partitions (topic, partitions); version 1 and later.
        owned_partitions: Tuple<TopicPartitions>,
        /// The generation of the owned partitions, -1: none; version 2 and later.
        generation: i32,
        /// `client.rack`; version 3 and later.
        rack: Option<String>,
        /// The version of the bytes.
        version: i16,
    }
    methods new {
        #[new]
        #[pyo3(
            signature = (topics, *, user_data=None, owned_partitions=None, generation=-1, rack=None, version=3),
            text_signature = "(topics, *, user_data=None, owned_partitions=(), generation=-1, rack=None, version=3)"
        )]
        fn new(
            topics: Tuple<String>,
            user_data: Option<Octets>,
            owned_partitions: Option<Tuple<TopicPartitions>>,
            generation: i32,
            rack: Option<String>,
            version: i16,
        ) -> Self {
            let owned_partitions = owned_partitions.unwrap_or_default();
            Subscription { topics, user_data, owned_partitions, generation, rack, version }
        }
    }
}

plain! {
    /// The leader's assignment for one member.
    Assignment {
        /// (topic, partitions), in the writer's order.
        partitions: Tuple<TopicPartitions>,
        /// User data of the assignor.
        user_data: Option<Octets>,
        /// The version of the bytes.
        version: i16,
    }
    methods new {
        #[new]
        #[pyo3(signature = (partitions, *, user_data=None, version=3))]
        fn new(partitions: Tuple<TopicPartitions>, user_data: Option<Octets>, version: i16) -> Self {
            Assignment { partitions, user_data, version }
        }
    }
}

fn to_python(topics: Vec<embedded::TopicPartitions>) -> Tuple<TopicPartitions> {
    topics.into_iter().map(|topic| (topic.topic, Tuple(topic.partitions))).collect()
}

fn to_core(topics: &Tuple<TopicPartitions>) -> Vec<embedded::TopicPartitions> {
    let topic = |(topic, partitions): &TopicPartitions| embedded::TopicPartitions {
        topic: topic.clone(),
        partitions: partitions.0.clone(),
    };
    topics.0.iter().map(topic).collect()
}

fn refused(error: embedded::EmbeddedError) -> PyErr {
    EmbeddedError::new_err(error.to_string())
}

/// Decodes a consumer's join metadata.
#[pyfunction]
fn decode_subscription(data: Octets) -> PyResult<Subscription> {
    let read = embedded::decode_subscription(&data.0).map_err(refused)?;
    Ok(Subscription {
        topics: Tuple(read.topics),
        user_data: read.user_data.map(|bytes| Octets(bytes.into())),
        owned_partitions: to_python(read.owned_partitions),
        generation: read.generation,
        rack: read.rack,
        version: read.version,
    })
}

/// Decodes a member's assignment.
#[pyfunction]
fn decode_assignment(data: Octets) -> PyResult<Assignment> {
    let read = embedded::decode_assignment(&data.0).map_err(refused)?;
    Ok(Assignment {
        partitions: to_python(read.partitions),
        user_data: read.user_data.map(|bytes| Octets(bytes.into())),
        version: read.version,
    })
}

/// Encodes a subscription in its own version, with lists in the given order.
#[pyfunction]
fn encode_subscription(subscription: Subscription) -> PyResult<Octets> {
    let bytes = embedded::encode_subscription(&embedded::Subscription {
        version: subscription.version,
        topics: subscription.topics.0,
        user_data: subscription.user_data.map(|bytes| bytes.0.into()),
        owned_partitions: to_core(&subscription.owned_partitions),
        generation: subscription.generation,
        rack: subscription.rack,
    });
    bytes.map(|bytes| Octets(bytes.into())).map_err(refused)
}

/// Encodes an assignment in its own version, with lists in the given order.
#[pyfunction]
fn encode_assignment(assignment: Assignment) -> PyResult<Octets> {
    let bytes = embedded::encode_assignment(&embedded::Assignment {
        version: assignment.version,
        partitions: to_core(&assignment.partitions),
        user_data: assignment.user_data.map(|bytes| bytes.0.into()),
    });
    bytes.map(|bytes| Octets(bytes.into())).map_err(refused)
}

/// Adds the classes and functions to the module.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Subscription>()?;
    module.add_class::<Assignment>()?;
    module.add_function(wrap_pyfunction!(decode_subscription, module)?)?;
    module.add_function(wrap_pyfunction!(decode_assignment, module)?)?;
    module.add_function(wrap_pyfunction!(encode_subscription, module)?)?;
    module.add_function(wrap_pyfunction!(encode_assignment, module)?)
}
