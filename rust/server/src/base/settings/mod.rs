//! The supported settings, with Kafka's names and the defaults of Kafka 4.4, in one table.

mod kind;
mod security;

use std::{collections::BTreeMap, fmt, time::Duration};

use rota_core::{
    config::Config,
    consumer_group::config::{Bounds, ConsumerConfig, Migration, Range},
};

use kind::CONSUMER_PROTOCOL;
pub use kind::Kind;
pub use security::{KeyFetching, KeySource, STANDARD_AUTHORIZER};

use super::{
    listeners::ListenerTexts,
    names::Hint,
    topic_settings::{PARTITIONS_PER_TOPIC_MAX, TopicSettings},
};

/// A setting.
#[derive(Debug)]
pub struct Setting {
    /// Kafka's name.
    pub name: &'static str,
    /// The allowed values.
    pub kind: Kind,
    /// Kafka's default, as text.
    pub default: &'static str,
    /// The effect in rota.
    pub effect: &'static str,
}

const INT_MAX: i64 = i32::MAX as i64;

macro_rules! settings {
    ($($constant:ident = $name:literal, $kind:expr, $default:literal, $effect:literal;)+) => {
        /// Every setting, by name.
        pub static SETTINGS: &[Setting] = &[$(
            Setting { name: $name, kind: $kind, default: $default, effect: $effect },
        )+];

        #[expect(non_camel_case_types, clippy::upper_case_acronyms, reason = "numbers the constants below")]
        enum Index { $($constant,)+ }
        $(const $constant: usize = Index::$constant as usize;)+
    };
}

settings! {
    ADVERTISED_LISTENERS = "advertised.listeners", Kind::Text, "",
        "addresses sent to clients, for each of `listeners`: NAME://HOST:PORT,...";
    ALLOW_EVERYONE_IF_NO_ACL_FOUND = "allow.everyone.if.no.acl.found", Kind::Bool, "false",
        "ACLs: whether resources that no ACL names are open to everyone";
    AUTHORIZER_CLASS_NAME = "authorizer.class.name", Kind::Text, "",
        "ACLs: org.apache.kafka.metadata.authorizer.StandardAuthorizer switches authorization on";
    AUTO_CREATE_TOPICS_ENABLE = "auto.create.topics.enable", Kind::Bool, "true",
        "whether Metadata creates missing topics";
    CONNECTION_FAILED_AUTHENTICATION_DELAY_MS = "connection.failed.authentication.delay.ms", Kind::Int(0, INT_MAX), "100",
        "SASL: delay of the answer to a failed authentication";
    CONNECTIONS_MAX_IDLE_MS = "connections.max.idle.ms", Kind::Int(-1, i64::MAX / 2), "600000",
        "a connection that is idle for this long without a parked request is closed; -1: never";
    CONNECTIONS_MAX_REAUTH_MS = "connections.max.reauth.ms", Kind::Int(0, i64::MAX / 2), "0",
        "SASL: a client must authenticate again within this time; 0: never";
    GROUP_CONSUMER_ASSIGNMENT_INTERVAL_MS = "group.consumer.assignment.interval.ms", Kind::Int(0, 15_000), "1000",
        "consumer protocol: minimum time between two target assignments of a group";
    GROUP_CONSUMER_HEARTBEAT_INTERVAL_MS = "group.consumer.heartbeat.interval.ms", Kind::Int(1, INT_MAX), "5000",
        "consumer protocol: heartbeat interval of members";
    GROUP_CONSUMER_MAX_ASSIGNMENT_INTERVAL_MS = "group.consumer.max.assignment.interval.ms", Kind::Int(0, INT_MAX), "15000",
        "consumer protocol: maximum assignment interval that a group may set";
    GROUP_CONSUMER_MAX_HEARTBEAT_INTERVAL_MS = "group.consumer.max.heartbeat.interval.ms", Kind::Int(1, INT_MAX), "15000",
        "consumer protocol: maximum heartbeat interval that a group may set";
    GROUP_CONSUMER_MAX_SESSION_TIMEOUT_MS = "group.consumer.max.session.timeout.ms", Kind::Int(1, INT_MAX), "60000",
        "consumer protocol: maximum session timeout that a group may set";
    GROUP_CONSUMER_MAX_SIZE = "group.consumer.max.size", Kind::Int(1, INT_MAX), "2147483647",
        "consumer protocol: maximum number of members of a group";
    GROUP_CONSUMER_MIGRATION_POLICY = "group.consumer.migration.policy", Kind::Migration, "bidirectional",
        "consumer protocol: conversion of groups with members: bidirectional, upgrade, downgrade or disabled";
    GROUP_CONSUMER_MIN_ASSIGNMENT_INTERVAL_MS = "group.consumer.min.assignment.interval.ms", Kind::Int(0, INT_MAX), "0",
        "consumer protocol: minimum assignment interval that a group may set";
    GROUP_CONSUMER_MIN_HEARTBEAT_INTERVAL_MS = "group.consumer.min.heartbeat.interval.ms", Kind::Int(1, INT_MAX), "5000",
        "consumer protocol: minimum heartbeat interval that a group may set";
    GROUP_CONSUMER_MIN_SESSION_TIMEOUT_MS = "group.consumer.min.session.timeout.ms", Kind::Int(1, INT_MAX), "45000",
        "consumer protocol: minimum session timeout that a group may set";
    GROUP_CONSUMER_SESSION_TIMEOUT_MS = "group.consumer.session.timeout.ms", Kind::Int(1, INT_MAX), "45000",
        "consumer protocol: session timeout of members";
    GROUP_COORDINATOR_REBALANCE_PROTOCOLS = "group.coordinator.rebalance.protocols", Kind::Protocols, "classic,consumer",
        "served group protocols: classic,consumer, or classic";
    GROUP_INITIAL_REBALANCE_DELAY_MS = "group.initial.rebalance.delay.ms", Kind::Int(0, INT_MAX), "3000",
        "how long a rebalance of an empty group waits for more members";
    GROUP_MAX_SESSION_TIMEOUT_MS = "group.max.session.timeout.ms", Kind::Int(0, INT_MAX), "1800000",
        "maximum session timeout of a member";
    GROUP_MAX_SIZE = "group.max.size", Kind::Int(1, INT_MAX), "2147483647",
        "maximum number of members of a group";
    GROUP_MIN_SESSION_TIMEOUT_MS = "group.min.session.timeout.ms", Kind::Int(0, INT_MAX), "6000",
        "minimum session timeout of a member";
    INTER_BROKER_LISTENER_NAME = "inter.broker.listener.name", Kind::Text, "",
        "of `listeners`, the one at which the servers of a cluster ask each other; empty: the first PLAINTEXT one, or the first";
    LISTENER_SECURITY_PROTOCOL_MAP = "listener.security.protocol.map", Kind::Text,
        "PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT,SASL_SSL:SASL_SSL",
        "security protocol of each name in `listeners`: NAME:PROTOCOL,...";
    LISTENERS = "listeners", Kind::Text, "",
        "addresses to listen on, instead of --listen: NAME://HOST:PORT,...; no host: all addresses";
    LOG_RETENTION_BYTES = "log.retention.bytes", Kind::Int(-1, i64::MAX / 2), "-1",
        "maximum size of a partition, oldest messages removed first; -1: unlimited";
    LOG_RETENTION_CHECK_INTERVAL_MS = "log.retention.check.interval.ms", Kind::Int(1, i64::MAX / 2), "300000",
        "interval of retention for messages on disk";
    LOG_RETENTION_MS = "log.retention.ms", Kind::Int(-1, i64::MAX / 2), "604800000",
        "how long a finished segment of messages on disk is kept; -1: forever";
    MAX_CONNECTIONS = "max.connections", Kind::Int(0, INT_MAX), "2147483647",
        "maximum number of open connections; further ones are closed at once";
    MESSAGE_MAX_BYTES = "message.max.bytes", Kind::Int(0, INT_MAX), "1048588",
        "maximum size of a record batch in Produce";
    NUM_PARTITIONS = "num.partitions", Kind::Int(1, PARTITIONS_PER_TOPIC_MAX as i64), "1",
        "partitions of a topic created without a partition count";
    OFFSET_METADATA_MAX_BYTES = "offset.metadata.max.bytes", Kind::Int(0, INT_MAX), "4096",
        "maximum length of the metadata string of a commit";
    OFFSETS_COMMIT_TIMEOUT_MS = "offsets.commit.timeout.ms", Kind::Int(1, INT_MAX), "5000",
        "how long a request waits for an append to the log";
    OFFSETS_RETENTION_CHECK_INTERVAL_MS = "offsets.retention.check.interval.ms", Kind::Int(1, i64::MAX / 2), "600000",
        "interval of retention for offsets and groups";
    OFFSETS_RETENTION_MINUTES = "offsets.retention.minutes", Kind::Int(1, INT_MAX), "10080",
        "how long unused offsets are kept";
    OFFSETS_TOPIC_NUM_PARTITIONS = "offsets.topic.num.partitions", Kind::Int(1, 10_000), "50",
        "partitions of __consumer_offsets; each has its own coordinator";
    OFFSETS_TOPIC_SEGMENT_BYTES = "offsets.topic.segment.bytes", Kind::Int(4_096, INT_MAX), "104857600",
        "with a data directory: maximum size of a segment of any topic; finished segments are compacted";
    SASL_MECHANISM_INTER_BROKER_PROTOCOL = "sasl.mechanism.inter.broker.protocol", Kind::Text, "",
        "SASL between the servers of a cluster: one of --sasl; empty: the strongest";
    SASL_OAUTHBEARER_CLOCK_SKEW_SECONDS = "sasl.oauthbearer.clock.skew.seconds", Kind::Int(0, INT_MAX), "30",
        "OAUTHBEARER: how far the clocks of issuer and server may differ";
    SASL_OAUTHBEARER_EXPECTED_AUDIENCE = "sasl.oauthbearer.expected.audience", Kind::Text, "",
        "OAUTHBEARER: accepted audiences, separated by commas; empty: tokens have none";
    SASL_OAUTHBEARER_EXPECTED_ISSUER = "sasl.oauthbearer.expected.issuer", Kind::Text, "",
        "OAUTHBEARER: the issuer of tokens; empty: any that has the key";
    SASL_OAUTHBEARER_JWKS_ENDPOINT_REFRESH_MS = "sasl.oauthbearer.jwks.endpoint.refresh.ms", Kind::Int(1, i64::MAX / 2), "3600000",
        "OAUTHBEARER: interval at which keys are fetched from their URL";
    SASL_OAUTHBEARER_JWKS_ENDPOINT_RETRY_BACKOFF_MAX_MS = "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms", Kind::Int(1, i64::MAX / 2), "10000",
        "OAUTHBEARER: longest time until keys are fetched again after a failure";
    SASL_OAUTHBEARER_JWKS_ENDPOINT_RETRY_BACKOFF_MS = "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms", Kind::Int(1, i64::MAX / 2), "100",
        "OAUTHBEARER: time until keys are fetched again after a failure; doubled after each";
    SASL_OAUTHBEARER_JWKS_ENDPOINT_URL = "sasl.oauthbearer.jwks.endpoint.url", Kind::Text, "",
        "OAUTHBEARER: JSON web key set of the issuer of tokens: https://HOST/PATH or file:///PATH";
    SASL_OAUTHBEARER_SCOPE_CLAIM_NAME = "sasl.oauthbearer.scope.claim.name", Kind::Text, "scope",
        "OAUTHBEARER: claim with the scopes of a token";
    SASL_OAUTHBEARER_SUB_CLAIM_NAME = "sasl.oauthbearer.sub.claim.name", Kind::Text, "sub",
        "OAUTHBEARER: claim with the name of a token's principal";
    SOCKET_REQUEST_MAX_BYTES = "socket.request.max.bytes", Kind::Int(1, INT_MAX), "104857600",
        "maximum size of a request; a larger one closes the connection";
    SSL_CLIENT_AUTH = "ssl.client.auth", Kind::ClientAuth, "none",
        "TLS: client certificates: none, requested (verified if sent) or required";
    SSL_KEYSTORE_CERTIFICATE_CHAIN = "ssl.keystore.certificate.chain", Kind::Secret, "",
        "TLS: the server's certificate and intermediate ones, as PEM text";
    SSL_KEYSTORE_KEY = "ssl.keystore.key", Kind::Secret, "",
        "TLS: the private key of the certificate, as PEM text";
    SSL_KEYSTORE_LOCATION = "ssl.keystore.location", Kind::Text, "",
        "TLS: PEM file with the private key, the server's certificate and intermediate ones";
    _SSL_KEYSTORE_TYPE = "ssl.keystore.type", Kind::StoreType, "PEM",
        "TLS: format of the key and the certificates: PEM";
    SSL_PRINCIPAL_MAPPING_RULES = "ssl.principal.mapping.rules", Kind::Text, "DEFAULT",
        "TLS: rules that make a principal's name of the subject of a client's certificate";
    SSL_TRUSTSTORE_CERTIFICATES = "ssl.truststore.certificates", Kind::Secret, "",
        "TLS: CAs of client certificates, as PEM text";
    SSL_TRUSTSTORE_LOCATION = "ssl.truststore.location", Kind::Text, "",
        "TLS: PEM file with the CAs of client certificates";
    _SSL_TRUSTSTORE_TYPE = "ssl.truststore.type", Kind::StoreType, "PEM",
        "TLS: format of the CAs of client certificates: PEM";
    SUPER_USERS = "super.users", Kind::Text, "",
        "ACLs: principals that may do everything, separated by semicolons";
    TRANSACTION_MAX_TIMEOUT_MS = "transaction.max.timeout.ms", Kind::Int(1, INT_MAX), "900000",
        "longest timeout of transactions that a producer may set";
    TRANSACTION_STATE_LOG_NUM_PARTITIONS = "transaction.state.log.num.partitions", Kind::Int(1, 10_000), "50",
        "partitions of __transaction_state; each has its own coordinator of transactions";
    TRANSACTIONAL_ID_EXPIRATION_MS = "transactional.id.expiration.ms", Kind::Int(1, INT_MAX), "604800000",
        "how long a transactional id without an open transaction is kept";
}

/// Pairs of settings whose first must not exceed the second.
static ORDERED: [(usize, usize); 8] = [
    (GROUP_MIN_SESSION_TIMEOUT_MS, GROUP_MAX_SESSION_TIMEOUT_MS),
    (GROUP_CONSUMER_MIN_SESSION_TIMEOUT_MS, GROUP_CONSUMER_SESSION_TIMEOUT_MS),
    (GROUP_CONSUMER_SESSION_TIMEOUT_MS, GROUP_CONSUMER_MAX_SESSION_TIMEOUT_MS),
    (GROUP_CONSUMER_MIN_HEARTBEAT_INTERVAL_MS, GROUP_CONSUMER_HEARTBEAT_INTERVAL_MS),
    (GROUP_CONSUMER_HEARTBEAT_INTERVAL_MS, GROUP_CONSUMER_MAX_HEARTBEAT_INTERVAL_MS),
    (GROUP_CONSUMER_MIN_ASSIGNMENT_INTERVAL_MS, GROUP_CONSUMER_ASSIGNMENT_INTERVAL_MS),
    (GROUP_CONSUMER_ASSIGNMENT_INTERVAL_MS, GROUP_CONSUMER_MAX_ASSIGNMENT_INTERVAL_MS),
    (SASL_OAUTHBEARER_JWKS_ENDPOINT_RETRY_BACKOFF_MS, SASL_OAUTHBEARER_JWKS_ENDPOINT_RETRY_BACKOFF_MAX_MS),
];

/// Why a setting was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SettingError {
    /// The setting does not exist.
    Unknown {
        /// The name given.
        name: String,
        /// The closest setting, or all settings.
        hint: Hint,
    },
    /// The value is not allowed.
    BadValue {
        /// The setting.
        name: &'static str,
        /// The value given.
        value: String,
        /// The allowed values.
        kind: Kind,
    },
    /// A minimum exceeds its maximum.
    Crossed {
        /// The setting of the minimum.
        low: &'static str,
        /// Its value.
        low_value: i64,
        /// The setting of the maximum.
        high: &'static str,
        /// Its value.
        high_value: i64,
    },
}

impl fmt::Display for SettingError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SettingError::Unknown { name, hint: hint @ Hint::Nearest(_) } => {
                write!(out, "unknown setting `{name}`; {hint}")
            }
            SettingError::Unknown { name, hint } => {
                write!(out, "unknown setting `{name}`; {hint}: `rota settings` lists them")
            }
            SettingError::BadValue { name, value, kind } => {
                // A secret of a wrong form cannot occur: every text is one.
                write!(out, "`{name}` is `{value}`, expected {kind}")
            }
            SettingError::Crossed { low, low_value, high, high_value } => {
                write!(out, "`{low}` is `{low_value}`, above `{high}`, which is `{high_value}`: set both")
            }
        }
    }
}

impl std::error::Error for SettingError {}

/// Replaces a secret where settings are shown.
const HIDDEN: &str = "(hidden)";

/// The values of all settings.
#[derive(Clone, PartialEq, Eq)]
pub struct Settings {
    values: Vec<i64>,
    /// The values of texts and secrets that are set, by index.
    texts: BTreeMap<usize, String>,
}

/// Without secrets.
impl fmt::Debug for Settings {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_map().entries(self.rows().into_iter().map(|(name, _, value)| (name, value))).finish()
    }
}

impl Default for Settings {
    fn default() -> Settings {
        let default = |setting: &Setting| setting.kind.parse(setting.default).unwrap_or_default();
        Settings { values: SETTINGS.iter().map(default).collect(), texts: BTreeMap::new() }
    }
}

impl Settings {
    /// Sets one setting from text.
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), SettingError> {
        let Some(index) = SETTINGS.iter().position(|setting| setting.name == name.trim()) else {
            let hint = Hint::new(name, SETTINGS.iter().map(|setting| setting.name));
            return Err(SettingError::Unknown { name: name.to_owned(), hint });
        };
        let Setting { name, kind, .. } = SETTINGS[index];
        let bad_value = || SettingError::BadValue { name, value: value.to_owned(), kind };
        self.values[index] = kind.parse(value).ok_or_else(bad_value)?;
        if matches!(kind, Kind::Text | Kind::Secret) {
            self.texts.remove(&index);
            if !value.is_empty() {
                self.texts.insert(index, value.to_owned());
            }
        }
        Ok(())
    }

    /// Checks the settings against each other.
    pub fn check(&self) -> Result<(), SettingError> {
        let crossed = ORDERED.iter().find(|(low, high)| self.int(*low) > self.int(*high));
        crossed.map_or(Ok(()), |(low, high)| {
            let (low_value, high_value) = (self.int(*low), self.int(*high));
            let (low, high) = (SETTINGS[*low].name, SETTINGS[*high].name);
            Err(SettingError::Crossed { low, low_value, high, high_value })
        })
    }

    /// Returns (name, default, value) of every setting, by name. Secrets are hidden.
    pub fn rows(&self) -> Vec<(&'static str, &'static str, String)> {
        let row = |(index, setting): (usize, &Setting)| (setting.name, setting.default, self.shown(index));
        SETTINGS.iter().enumerate().map(row).collect()
    }

    /// Returns the value of a setting as text, hidden if it is a secret; `None` if it does not exist.
    pub fn value(&self, name: &str) -> Option<String> {
        SETTINGS.iter().position(|setting| setting.name == name).map(|index| self.shown(index))
    }

    fn shown(&self, index: usize) -> String {
        match (SETTINGS[index].kind, self.texts.get(&index)) {
            (Kind::Secret, Some(_)) => HIDDEN.to_owned(),
            (_, Some(text)) => text.clone(),
            (Kind::Text, None) => SETTINGS[index].default.to_owned(),
            (kind, None) => kind.text(self.values[index]),
        }
    }

    /// Returns the listeners.
    pub fn listeners(&self) -> ListenerTexts<'_> {
        let text = |index: usize| self.texts.get(&index).map_or(SETTINGS[index].default, String::as_str);
        ListenerTexts {
            listeners: text(LISTENERS),
            advertised: text(ADVERTISED_LISTENERS),
            protocols: text(LISTENER_SECURITY_PROTOCOL_MAP),
        }
    }

    /// Returns `inter.broker.listener.name`; empty: not set.
    pub fn inter_broker_listener_name(&self) -> &str {
        self.trimmed(INTER_BROKER_LISTENER_NAME)
    }

    /// Returns `sasl.mechanism.inter.broker.protocol`; empty: not set.
    pub fn inter_broker_mechanism(&self) -> &str {
        self.trimmed(SASL_MECHANISM_INTER_BROKER_PROTOCOL)
    }

    fn trimmed(&self, index: usize) -> &str {
        self.texts.get(&index).map_or("", |text| text.trim())
    }

    fn int(&self, index: usize) -> i64 {
        self.values[index]
    }

    /// Returns the settings of every coordinator partition.
    pub fn coordinator(&self) -> Config {
        Config {
            group_min_session_timeout_ms: self.int(GROUP_MIN_SESSION_TIMEOUT_MS) as i32,
            group_max_session_timeout_ms: self.int(GROUP_MAX_SESSION_TIMEOUT_MS) as i32,
            group_initial_rebalance_delay_ms: self.int(GROUP_INITIAL_REBALANCE_DELAY_MS) as u32,
            group_max_size: self.int(GROUP_MAX_SIZE) as u32,
            offset_metadata_max_bytes: self.int(OFFSET_METADATA_MAX_BYTES) as u32,
            offsets_commit_timeout_ms: self.int(OFFSETS_COMMIT_TIMEOUT_MS) as u32,
            offsets_retention_minutes: self.int(OFFSETS_RETENTION_MINUTES) as u32,
            offsets_retention_check_interval_ms: self.int(OFFSETS_RETENTION_CHECK_INTERVAL_MS) as u64,
            ..Config::default()
        }
    }

    /// Returns the settings of consumer groups.
    pub fn consumer_groups(&self) -> ConsumerConfig {
        ConsumerConfig {
            enabled: self.int(GROUP_COORDINATOR_REBALANCE_PROTOCOLS) == CONSUMER_PROTOCOL,
            session_timeout_ms: self.int(GROUP_CONSUMER_SESSION_TIMEOUT_MS) as i32,
            heartbeat_interval_ms: self.int(GROUP_CONSUMER_HEARTBEAT_INTERVAL_MS) as i32,
            assignment_interval_ms: self.int(GROUP_CONSUMER_ASSIGNMENT_INTERVAL_MS) as i32,
            max_size: self.int(GROUP_CONSUMER_MAX_SIZE) as u32,
            bounds: Bounds {
                session_timeout_ms: self
                    .range(GROUP_CONSUMER_MIN_SESSION_TIMEOUT_MS, GROUP_CONSUMER_MAX_SESSION_TIMEOUT_MS),
                heartbeat_interval_ms: self
                    .range(GROUP_CONSUMER_MIN_HEARTBEAT_INTERVAL_MS, GROUP_CONSUMER_MAX_HEARTBEAT_INTERVAL_MS),
                assignment_interval_ms: self
                    .range(GROUP_CONSUMER_MIN_ASSIGNMENT_INTERVAL_MS, GROUP_CONSUMER_MAX_ASSIGNMENT_INTERVAL_MS),
            },
            migration: Migration::NAMES[self.int(GROUP_CONSUMER_MIGRATION_POLICY) as usize].1,
        }
    }

    /// Returns the settings of the coordinators of transactions at this level of `transaction.version`.
    pub fn transactions(&self, level: i16) -> rota_txn::Config {
        rota_txn::Config {
            level,
            timeout_max_ms: self.int(TRANSACTION_MAX_TIMEOUT_MS) as i32,
            expiration_ms: self.int(TRANSACTIONAL_ID_EXPIRATION_MS),
            ..rota_txn::Config::default()
        }
    }

    /// Returns `transaction.state.log.num.partitions`.
    pub fn transaction_partitions(&self) -> u32 {
        self.int(TRANSACTION_STATE_LOG_NUM_PARTITIONS) as u32
    }

    fn range(&self, min: usize, max: usize) -> Range {
        Range { min: self.int(min) as i32, max: self.int(max) as i32 }
    }

    /// Sets the number of partitions from the data directory.
    pub fn set_offsets_partitions(&mut self, partitions: u32) {
        self.values[OFFSETS_TOPIC_NUM_PARTITIONS] = i64::from(partitions);
    }

    /// Returns `offsets.topic.segment.bytes`.
    pub fn segment_bytes(&self) -> u64 {
        self.int(OFFSETS_TOPIC_SEGMENT_BYTES) as u64
    }

    /// Returns `offsets.topic.num.partitions`.
    pub fn offsets_partitions(&self) -> u32 {
        self.int(OFFSETS_TOPIC_NUM_PARTITIONS) as u32
    }

    /// Returns the shortest session timeout that a member may have, of either protocol.
    pub fn min_session_timeout_ms(&self) -> u64 {
        self.int(GROUP_MIN_SESSION_TIMEOUT_MS).min(self.int(GROUP_CONSUMER_MIN_SESSION_TIMEOUT_MS)) as u64
    }

    /// Returns `socket.request.max.bytes`.
    pub fn request_max_bytes(&self) -> usize {
        self.int(SOCKET_REQUEST_MAX_BYTES) as usize
    }

    /// Returns `max.connections`.
    pub fn max_connections(&self) -> usize {
        self.int(MAX_CONNECTIONS) as usize
    }

    /// Returns `connection.failed.authentication.delay.ms`.
    pub fn failed_authentication_delay(&self) -> Duration {
        Duration::from_millis(self.int(CONNECTION_FAILED_AUTHENTICATION_DELAY_MS) as u64)
    }

    /// Returns `connections.max.idle.ms`; `None`: connections are never closed as idle.
    pub fn max_idle_ms(&self) -> Option<u64> {
        u64::try_from(self.int(CONNECTIONS_MAX_IDLE_MS)).ok()
    }

    /// Returns `connections.max.reauth.ms`; `None`: sessions have no end.
    pub fn max_reauthentication_ms(&self) -> Option<u64> {
        u64::try_from(self.int(CONNECTIONS_MAX_REAUTH_MS)).ok().filter(|ms| *ms > 0)
    }

    /// Returns `log.retention.check.interval.ms`.
    pub fn retention_check_interval_ms(&self) -> u64 {
        self.int(LOG_RETENTION_CHECK_INTERVAL_MS) as u64
    }

    /// Returns the settings of the topics.
    pub fn topics(&self) -> TopicSettings {
        TopicSettings {
            auto_create_topics: self.int(AUTO_CREATE_TOPICS_ENABLE) != 0,
            num_partitions: self.int(NUM_PARTITIONS) as i32,
            message_max_bytes: self.message_max_bytes(),
            offsets_partitions: self.offsets_partitions(),
            retention_bytes: u64::try_from(self.int(LOG_RETENTION_BYTES)).ok(),
            retention_ms: u64::try_from(self.int(LOG_RETENTION_MS)).ok(),
            ..TopicSettings::default()
        }
    }

    /// Returns `offsets.commit.timeout.ms`.
    pub fn offsets_commit_timeout_ms(&self) -> u64 {
        self.int(OFFSETS_COMMIT_TIMEOUT_MS) as u64
    }

    /// Returns `message.max.bytes`.
    pub fn message_max_bytes(&self) -> usize {
        self.int(MESSAGE_MAX_BYTES) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_sorted_and_every_default_is_a_legal_value() {
        assert!(SETTINGS.windows(2).all(|pair| pair[0].name < pair[1].name));
        for setting in SETTINGS {
            assert!(setting.kind.parse(setting.default).is_some(), "{}", setting.name);
        }
    }

    #[test]
    fn the_defaults_are_those_of_the_core_and_the_topics() {
        assert_eq!(Settings::default().coordinator(), Config::default());
        // Journals of before say nothing where the consumer protocol was off.
        let consumer = ConsumerConfig { enabled: true, ..ConsumerConfig::default() };
        assert_eq!(Settings::default().consumer_groups(), consumer);
        assert_eq!(Settings::default().topics(), TopicSettings::default());
        assert_eq!(Settings::default().transactions(0), rota_txn::Config::default());
    }

    #[test]
    fn an_unknown_setting_is_refused_with_the_nearest_name() {
        let error = Settings::default().set("group.max.sise", "3").unwrap_err();
        assert_eq!(error.to_string(), "unknown setting `group.max.sise`; the nearest one is `group.max.size`");
        let error = Settings::default().set("foo", "3").unwrap_err().to_string();
        assert!(error.starts_with("unknown setting `foo`; there are "), "{error}");
        assert!(error.ends_with(": `rota settings` lists them"), "{error}");
    }

    #[test]
    fn a_bad_value_is_refused_with_what_was_expected() {
        let mut settings = Settings::default();
        let error = settings.set("group.max.size", "0").unwrap_err();
        assert_eq!(error.to_string(), "`group.max.size` is `0`, expected a whole number from 1 to 2147483647");
        let error = settings.set("auto.create.topics.enable", "yes").unwrap_err();
        assert_eq!(error.to_string(), "`auto.create.topics.enable` is `yes`, expected `true` or `false`");
        assert_eq!(settings, Settings::default());
    }

    #[test]
    fn session_timeouts_that_nobody_could_have_are_refused_with_both_settings() {
        let mut settings = Settings::default();
        assert_eq!(settings.check(), Ok(()));
        settings.set("group.max.session.timeout.ms", "5999").unwrap();
        let error = settings.check().unwrap_err().to_string();
        assert_eq!(
            error,
            "`group.min.session.timeout.ms` is `6000`, above `group.max.session.timeout.ms`, which is `5999`: set both"
        );
        settings.set("group.min.session.timeout.ms", "5999").unwrap();
        assert_eq!(settings.check(), Ok(()));
    }

    #[test]
    fn a_secret_is_not_shown() {
        let mut settings = Settings::default();
        settings.set("ssl.keystore.key", "-----BEGIN PRIVATE KEY-----").unwrap();
        assert_eq!(settings.value("ssl.keystore.key").as_deref(), Some("(hidden)"));
        assert!(!format!("{settings:?} {:?}", settings.rows()).contains("BEGIN"));
    }

    #[test]
    fn a_setting_that_was_set_shows_in_its_row_and_in_the_coordinators_config() {
        let mut settings = Settings::default();
        settings.set("group.initial.rebalance.delay.ms", "0").unwrap();
        settings.set("auto.create.topics.enable", "FALSE").unwrap();
        assert!(settings.rows().contains(&("group.initial.rebalance.delay.ms", "3000", "0".to_owned())));
        assert_eq!(settings.coordinator().group_initial_rebalance_delay_ms, 0);
        assert!(!settings.topics().auto_create_topics);
    }
}
