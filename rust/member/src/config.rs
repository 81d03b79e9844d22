//! What a member is told at its birth, by the names of Kafka's consumer settings, with their defaults.

use std::fmt;

use rota_assign::Assignor;

/// Who divides the partitions when this member leads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Strategy {
    /// One of rota's.
    BuiltIn(Assignor),
    /// The application's: it is asked by [`Notice::Plan`](crate::Notice::Plan).
    Own {
        /// Its name in the protocol.
        name: String,
        /// Whether it hands partitions over in two rounds.
        cooperative: bool,
    },
}

impl Strategy {
    /// The name in the protocol.
    pub fn name(&self) -> &str {
        match self {
            Strategy::BuiltIn(assignor) => assignor.wire_name(),
            Strategy::Own { name, .. } => name,
        }
    }

    /// Whether it can hand over without everybody letting go of everything.
    fn is_cooperative(&self) -> bool {
        match self {
            Strategy::BuiltIn(assignor) => *assignor == Assignor::CooperativeSticky,
            Strategy::Own { cooperative, .. } => *cooperative,
        }
    }

    /// Whether it can work where everybody lets go of everything: of rota's, all can.
    fn is_eager(&self) -> bool {
        match self {
            Strategy::BuiltIn(_) => true,
            Strategy::Own { cooperative, .. } => !*cooperative,
        }
    }
}

/// A member's settings.
#[derive(Clone, Debug)]
pub struct Config {
    /// `group.id`; not empty.
    pub group_id: String,
    /// `group.instance.id` of a static member.
    pub instance_id: Option<String>,
    /// `client.rack`, for assignors that look at it.
    pub rack: Option<String>,
    /// `session.timeout.ms`.
    pub session_timeout_ms: u32,
    /// `heartbeat.interval.ms`: less than the session timeout.
    pub heartbeat_interval_ms: u32,
    /// `max.poll.interval.ms`: how long the application may work between two polls; also the rebalance timeout.
    pub max_poll_interval_ms: u32,
    /// `request.timeout.ms`.
    pub request_timeout_ms: u32,
    /// `default.api.timeout.ms`: how long a commit or fetch of offsets is tried.
    pub api_timeout_ms: u32,
    /// `retry.backoff.ms`.
    pub retry_backoff_ms: u32,
    /// `retry.backoff.max.ms`, for heartbeats.
    pub retry_backoff_max_ms: u32,
    /// `metadata.max.age.ms`: how often a leader looks whether the topics have changed.
    pub metadata_max_age_ms: u32,
    /// `auto.commit.interval.ms`; `None`: the application commits.
    pub auto_commit_interval_ms: Option<u32>,
    /// `partition.assignment.strategy`, in order of preference; not empty.
    pub strategies: Vec<Strategy>,
    /// Whether a dynamic member says goodbye on close.
    pub leave_on_close: bool,
    /// Spreads retries; members with equal seeds retry at equal times.
    pub seed: u64,
}

impl Config {
    /// Kafka's defaults; range only.
    pub fn new(group_id: impl Into<String>) -> Config {
        Config {
            group_id: group_id.into(),
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

    /// The settings, if they make sense together.
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

    /// Whether partitions are handed over in two rounds: only if every strategy can (§22.2).
    pub fn is_cooperative(&self) -> bool {
        self.strategies.iter().all(Strategy::is_cooperative)
    }
}

/// Settings that make no sense.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the message says what each field is")]
pub enum ConfigError {
    /// A time that is zero or has no room in the protocol.
    Range { setting: &'static str, found: u32 },
    /// An empty group id.
    NoGroup,
    /// An empty instance id.
    EmptyInstance,
    /// Heartbeats that are further apart than a session is long.
    Heartbeats { heartbeat_interval_ms: u32, session_timeout_ms: u32 },
    /// No strategy at all.
    NoStrategy,
    /// A strategy that is listed twice.
    StrategyTwice(String),
    /// An assignor that runs in servers.
    Servers(&'static str),
    /// Strategies of which one is only eager and another only cooperative.
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
            ConfigError::NoCommonProtocol => {
                f.write_str("one strategy is eager and another cooperative only: no rebalance could follow both")
            }
        }
    }
}

impl std::error::Error for ConfigError {}
