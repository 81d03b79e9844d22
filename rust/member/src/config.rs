//! The settings of a member, with the names and defaults of Kafka's consumer.

use std::fmt;

use rota_assign::Assignor;

/// An assignor of the leader.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Strategy {
    /// An assignor of rota.
    BuiltIn(Assignor),
    /// The application's assignor, called through [`Notice::Plan`](crate::Notice::Plan).
    Own {
        /// The name in the protocol.
        name: String,
        /// Whether it hands partitions over in two rounds.
        cooperative: bool,
    },
}

impl Strategy {
    /// Returns the name in the protocol.
    pub fn name(&self) -> &str {
        match self {
            Strategy::BuiltIn(assignor) => assignor.wire_name(),
            Strategy::Own { name, .. } => name,
        }
    }

    /// Whether it supports the cooperative protocol.
    fn is_cooperative(&self) -> bool {
        match self {
            Strategy::BuiltIn(assignor) => *assignor == Assignor::CooperativeSticky,
            Strategy::Own { cooperative, .. } => *cooperative,
        }
    }

    /// Whether it supports the eager protocol; all assignors of rota do.
    fn is_eager(&self) -> bool {
        match self {
            Strategy::BuiltIn(_) => true,
            Strategy::Own { cooperative, .. } => !*cooperative,
        }
    }
}

/// `group.protocol`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// Members join and sync, and a leader assigns.
    Classic,
    /// The coordinator assigns (docs/consumer-protocol.md).
    Consumer {
        /// `group.remote.assignor`; `None`: the coordinator chooses.
        assignor: Option<String>,
    },
}

/// The settings of a member.
#[derive(Clone, Debug)]
pub struct Config {
    /// `group.id`; must not be empty.
    pub group_id: String,
    /// `group.protocol`.
    pub protocol: Protocol,
    /// `group.instance.id` of a static member.
    pub instance_id: Option<String>,
    /// `client.rack`, for assignors that use racks.
    pub rack: Option<String>,
    /// `session.timeout.ms`, in milliseconds. The newer protocol leaves it to the broker.
    pub session_timeout_ms: u32,
    /// `heartbeat.interval.ms`, in milliseconds; less than the session timeout. The newer protocol leaves it to the
    /// broker.
    pub heartbeat_interval_ms: u32,
    /// `max.poll.interval.ms`, in milliseconds: the application's time between two polls, and the rebalance timeout.
    pub max_poll_interval_ms: u32,
    /// `request.timeout.ms`, in milliseconds.
    pub request_timeout_ms: u32,
    /// `default.api.timeout.ms`, in milliseconds: the limit for a commit or fetch with retries.
    pub api_timeout_ms: u32,
    /// `retry.backoff.ms`, in milliseconds.
    pub retry_backoff_ms: u32,
    /// `retry.backoff.max.ms`, in milliseconds, for heartbeats.
    pub retry_backoff_max_ms: u32,
    /// `metadata.max.age.ms`, in milliseconds: the interval at which a leader checks topics for changes.
    pub metadata_max_age_ms: u32,
    /// `auto.commit.interval.ms`, in milliseconds; `None`: the application commits.
    pub auto_commit_interval_ms: Option<u32>,
    /// `partition.assignment.strategy`, in order of preference; must not be empty. The newer protocol has none.
    pub strategies: Vec<Strategy>,
    /// Whether a dynamic member leaves the group on close; with the newer protocol also a static one, for a while.
    pub leave_on_close: bool,
    /// Seed of the jitter of retries; equal seeds retry at equal times. With the newer protocol also of the member id, so
    /// two members of a group need different seeds.
    pub seed: u64,
}

impl Config {
    /// Creates settings with Kafka's defaults and the range assignor.
    pub fn new(group_id: impl Into<String>) -> Config {
        Config {
            group_id: group_id.into(),
            protocol: Protocol::Classic,
            instance_id: None,
            rack: None,
            session_timeout_ms: 45_000,
            heartbeat_interval_ms: 3_000,
            max_poll_interval_ms: 300_000,
            request_timeout_ms: 30_000,
            api_timeout_ms: 60_000,
            retry_backoff_ms: 100,
            retry_backoff_max_ms: 1_000,
            metadata_max_age_ms: 300_000,
            auto_commit_interval_ms: None,
            strategies: vec![Strategy::BuiltIn(Assignor::Range)],
            leave_on_close: true,
            seed: 0,
        }
    }

    /// Creates settings of a member that uses the newer protocol, with Kafka's defaults.
    pub fn consumer(group_id: impl Into<String>, assignor: Option<String>) -> Config {
        Config { protocol: Protocol::Consumer { assignor }, strategies: Vec::new(), ..Config::new(group_id) }
    }

    /// Whether the member uses the newer protocol.
    pub fn is_consumer(&self) -> bool {
        matches!(self.protocol, Protocol::Consumer { .. })
    }

    /// Returns the name of the coordinator's assignor that the member wants.
    pub fn remote_assignor(&self) -> Option<&str> {
        match &self.protocol {
            Protocol::Classic => None,
            Protocol::Consumer { assignor } => assignor.as_deref(),
        }
    }

    /// Checks the settings.
    pub fn validated(self) -> Result<Config, ConfigError> {
        let positive = [
            ("session_timeout_ms", self.session_timeout_ms),
            ("heartbeat_interval_ms", self.heartbeat_interval_ms),
            ("max_poll_interval_ms", self.max_poll_interval_ms),
            ("request_timeout_ms", self.request_timeout_ms),
            ("api_timeout_ms", self.api_timeout_ms),
            ("retry_backoff_ms", self.retry_backoff_ms),
            ("metadata_max_age_ms", self.metadata_max_age_ms),
            ("auto_commit_interval_ms", self.auto_commit_interval_ms.unwrap_or(1)),
        ];
        if let Some(&(setting, found)) = positive.iter().find(|(_, found)| *found == 0 || *found > i32::MAX as u32) {
            return Err(ConfigError::Range { setting, found });
        }
        if self.group_id.is_empty() {
            return Err(ConfigError::NoGroup);
        }
        if self.instance_id.as_deref() == Some("") {
            return Err(ConfigError::EmptyInstance);
        }
        if self.is_consumer() {
            return self.validated_consumer();
        }
        if self.heartbeat_interval_ms >= self.session_timeout_ms {
            return Err(ConfigError::Heartbeats {
                heartbeat_interval_ms: self.heartbeat_interval_ms,
                session_timeout_ms: self.session_timeout_ms,
            });
        }
        if self.strategies.is_empty() {
            return Err(ConfigError::NoStrategy);
        }
        for (at, strategy) in self.strategies.iter().enumerate() {
            if self.strategies[..at].iter().any(|other| other.name() == strategy.name()) {
                return Err(ConfigError::StrategyTwice(strategy.name().to_owned()));
            }
            if let Strategy::BuiltIn(assignor) = strategy
                && assignor.is_servers()
            {
                return Err(ConfigError::Servers(assignor.name()));
            }
        }
        if !self.is_cooperative() && !self.strategies.iter().all(Strategy::is_eager) {
            return Err(ConfigError::NoCommonProtocol);
        }
        Ok(self)
    }

    /// Refuses what the newer protocol leaves to the broker.
    fn validated_consumer(self) -> Result<Config, ConfigError> {
        let default = Config::new("");
        let times = [
            ("session_timeout_ms", self.session_timeout_ms, default.session_timeout_ms),
            ("heartbeat_interval_ms", self.heartbeat_interval_ms, default.heartbeat_interval_ms),
        ];
        if let Some(&(setting, found, _)) = times.iter().find(|(_, found, default)| found != default) {
            return Err(ConfigError::BrokerDecides { setting, found });
        }
        if !self.strategies.is_empty() {
            return Err(ConfigError::CoordinatorAssigns);
        }
        if self.remote_assignor() == Some("") {
            return Err(ConfigError::EmptyAssignor);
        }
        Ok(self)
    }

    /// Whether partitions are handed over in two rounds: only if every strategy supports it (§22.2).
    pub fn is_cooperative(&self) -> bool {
        self.strategies.iter().all(Strategy::is_cooperative)
    }
}

/// Why settings are invalid.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the message says what each field is")]
pub enum ConfigError {
    /// A time is zero or too large for the protocol.
    Range { setting: &'static str, found: u32 },
    /// The group id is empty.
    NoGroup,
    /// The instance id is empty.
    EmptyInstance,
    /// The heartbeat interval is not below the session timeout.
    Heartbeats { heartbeat_interval_ms: u32, session_timeout_ms: u32 },
    /// There is no strategy.
    NoStrategy,
    /// A strategy is listed twice.
    StrategyTwice(String),
    /// The assignor only runs in servers.
    Servers(&'static str),
    /// The setting is the broker's in the newer protocol.
    BrokerDecides { setting: &'static str, found: u32 },
    /// The newer protocol has no strategies.
    CoordinatorAssigns,
    /// The name of the remote assignor is empty.
    EmptyAssignor,
    /// No protocol is supported by all strategies: one is only eager, another only cooperative.
    NoCommonProtocol,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ConfigError::Range { setting, found } => write!(f, "{setting} is {found}: give 1 to 2147483647"),
            ConfigError::NoGroup => f.write_str("group_id is empty: give the group a name"),
            ConfigError::EmptyInstance => f.write_str("instance_id is empty: leave it out for a dynamic member"),
            ConfigError::Heartbeats { heartbeat_interval_ms, session_timeout_ms } => write!(
                f,
                "heartbeat_interval_ms {heartbeat_interval_ms} is not less than session_timeout_ms \
                 {session_timeout_ms}: the session would end between two heartbeats"
            ),
            ConfigError::NoStrategy => f.write_str("strategies is empty: give at least one, such as range"),
            ConfigError::StrategyTwice(name) => write!(f, "strategy `{name}` is there twice"),
            ConfigError::Servers(name) => {
                write!(f, "`{name}` runs in servers: give range, roundrobin, sticky or cooperative-sticky")
            }
            ConfigError::BrokerDecides { setting, found } => write!(
                f,
                "{setting} is {found}: with group_protocol `consumer` the broker decides it; leave it out, and change \
                 `consumer.{}` of the group instead",
                setting.replace('_', ".")
            ),
            ConfigError::CoordinatorAssigns => f.write_str(
                "strategies are given: with group_protocol `consumer` the coordinator assigns; leave them out, or give \
                 remote_assignor",
            ),
            ConfigError::EmptyAssignor => {
                f.write_str("remote_assignor is empty: give range or uniform, or leave it out")
            }
            ConfigError::NoCommonProtocol => {
                f.write_str("one strategy is eager and another cooperative only: no rebalance could follow both")
            }
        }
    }
}

impl std::error::Error for ConfigError {}
