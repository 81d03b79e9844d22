//! `IncrementalAlterConfigs` of topics.

use std::collections::HashSet;

use kafka_protocol::{
    messages::{create_topics_request::CreatableTopicConfig, incremental_alter_configs_request::AlterableConfig},
    protocol::StrBytes,
};
use rota_core::error::ErrorCode;

use super::{
    Change, TopicError, Topics,
    configs::{Operation, TopicConfigs, default_list},
    name::check_name,
    refuse_internal,
    table::Refusable,
};

/// Maximum bytes of a value after a change, those of a string in a request: a list grows with each APPEND.
const VALUE_BYTES_MAX: usize = i16::MAX as usize;

/// The outcome for each topic of a request, in its order.
pub type Altered = Vec<Result<(), TopicError>>;

impl Refusable for Altered {
    fn refused(self, error: &TopicError) -> Self {
        self.into_iter().map(|altered| altered.and_then(|()| Err(error.clone()))).collect()
    }
}

impl Topics {
    /// Changes the settings of each topic as a whole, or returns its error.
    pub fn alter_configs(&mut self, asked: &[(&str, &[AlterableConfig])], validate_only: bool) -> Altered {
        self.changing(|topics| {
            let altered = asked.iter().map(|(name, changes)| topics.alter_topic(name, changes, validate_only));
            altered.collect::<Altered>()
        })
    }

    fn alter_topic(&mut self, name: &str, changes: &[AlterableConfig], validate_only: bool) -> Result<(), TopicError> {
        check_name(name).map_err(|why| TopicError::new(ErrorCode::InvalidTopicException, why.to_string()))?;
        self.check_known()?;
        let Some(topic) = self.topic(name) else {
            let message = format!("there is no topic `{name}`");
            return Err(TopicError::new(ErrorCode::UnknownTopicOrPartition, message));
        };
        refuse_internal(name)?;
        let configs = changed(&topic.configs, changes)?;
        if !validate_only && configs != topic.configs {
            self.table_mut(Change::Altered).configure(name, configs);
        }
        Ok(())
    }
}

/// The configuration after the changes, in their order. Errors: `InvalidConfig`, `InvalidRequest`.
fn changed(configs: &TopicConfigs, changes: &[AlterableConfig]) -> Result<TopicConfigs, TopicError> {
    let mut given: Vec<(String, String)> =
        configs.given().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    for change in changes {
        let name = change.name.as_str();
        let at = given.iter().position(|(given, _)| given == name);
        let value = value_after(name, at.map(|at| given[at].1.as_str()), change)?;
        if value.as_ref().is_some_and(|value| value.len() > VALUE_BYTES_MAX) {
            let message = format!("topic setting `{name}` has more than {VALUE_BYTES_MAX} bytes");
            return Err(TopicError::new(ErrorCode::InvalidConfig, message));
        }
        match (at, value) {
            (Some(at), Some(value)) => given[at].1 = value,
            (None, Some(value)) => given.push((name.to_owned(), value)),
            (Some(at), None) => drop(given.remove(at)),
            (None, None) => {}
        }
    }
    let config = |(name, value)| {
        let config = CreatableTopicConfig::default().with_name(StrBytes::from_string(name));
        config.with_value(Some(StrBytes::from_string(value)))
    };
    TopicConfigs::read(&given.into_iter().map(config).collect::<Vec<_>>())
}

/// The topic's own value of a setting after a change; `None`: it has none.
fn value_after(name: &str, before: Option<&str>, change: &AlterableConfig) -> Result<Option<String>, TopicError> {
    let invalid = |code, message: String| Err(TopicError::new(code, message));
    let Some(operation) = Operation::of(change.config_operation) else {
        return invalid(
            ErrorCode::InvalidRequest,
            format!("operation {} of {name} is unknown", change.config_operation),
        );
    };
    if operation == Operation::Delete {
        return Ok(None);
    }
    let Some(value) = change.value.as_deref() else {
        return invalid(ErrorCode::InvalidRequest, format!("Null value not supported for : {name}"));
    };
    if operation == Operation::Set {
        return Ok(Some(value.to_owned()));
    }
    let Some(default) = default_list(name) else {
        return invalid(ErrorCode::InvalidConfig, operation.not_of_a_list(name));
    };
    let mut list: Vec<&str> = before.unwrap_or(default).split(',').filter(|part| !part.is_empty()).collect();
    if operation == Operation::Append {
        let mut known: HashSet<&str> = list.iter().copied().collect();
        list.extend(value.split(',').filter(|part| known.insert(part)));
    } else {
        let mut removed: HashSet<&str> = value.split(',').collect();
        list.retain(|part| !removed.remove(part));
    }
    Ok(Some(list.join(",")))
}
