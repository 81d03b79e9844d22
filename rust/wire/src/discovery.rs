//! `ApiVersions` and `FindCoordinator`, the first requests of a client (docs/protocol.md §17.3, §19).

use bytes::BytesMut;

use crate::{
    read::{Reader, WireError},
    requests::{limit_groups, read_strs},
    versions::{self, APIS, Api},
    write::Writer,
};

/// A decoded `ApiVersions`, v0–5.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ApiVersionsBody<'a> {
    /// v3+: name and version of the client's software.
    pub software: Option<(&'a str, &'a str)>,
    /// v5: the cluster id that the client expects, if any.
    pub cluster_id: Option<&'a str>,
    /// v5: the node id that the client expects; -1 if none.
    pub node_id: i32,
}

impl<'a> ApiVersionsBody<'a> {
    /// Reads the body of a request of a served version.
    pub fn read(version: i16, body: &'a [u8]) -> Result<ApiVersionsBody<'a>, WireError> {
        let mut reader = Reader::new(body, version >= 3);
        let software = if version >= 3 {
            Some((reader.str("client_software_name")?, reader.str("client_software_version")?))
        } else {
            None
        };
        let cluster_id = if version >= 5 { reader.nullable_str("cluster_id")? } else { None };
        let node_id = if version >= 5 { reader.i32("node_id")? } else { -1 };
        reader.skip_tags()?;
        Ok(ApiVersionsBody { software, cluster_id, node_id })
    }

    /// Whether name and version of the software are valid: letters and digits, with `.` and `-` inside.
    pub fn names_valid_software(&self) -> bool {
        self.software.is_none_or(|(name, version)| valid_software_word(name) && valid_software_word(version))
    }
}

fn valid_software_word(word: &str) -> bool {
    let ends = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    let bytes = word.as_bytes();
    ends(bytes.first())
        && ends(bytes.last())
        && bytes.iter().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-'))
}

/// A feature that a server reports, by which clients choose a protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Feature {
    /// The feature's name.
    pub name: &'static str,
    /// The highest level that the server supports. The lowest one is 0.
    pub max: i16,
    /// The level in use.
    pub level: i16,
}

impl Feature {
    /// `group.version`. Level 1: groups of consumers with `group.protocol=consumer` are served.
    pub const fn group_version(level: i16) -> Feature {
        Feature { name: "group.version", max: 1, level }
    }

    /// `transaction.version`. Level 2: the second protocol of transactions is served.
    pub const fn transaction_version(level: i16) -> Feature {
        Feature { name: "transaction.version", max: 2, level }
    }
}

/// From this version on an answer lists supported features whose least level is 0.
const FIRST_VERSION_WITH_LEVEL_0: i16 = 4;

/// Tags of `ApiVersions`.
const SUPPORTED_FEATURES: u32 = 0;
const FINALIZED_FEATURES_EPOCH: u32 = 1;
const FINALIZED_FEATURES: u32 = 2;

/// Writes an `ApiVersions` answer, v0–5, with every served API, or with none if `error` is not 0. `also` has the
/// other APIs of the listener.
pub fn api_versions(out: &mut Writer<'_>, version: i16, error: i16, features: &[Feature], also: &[&'static [Api]]) {
    let mut served: Vec<&Api> = if error == 0 { APIS.iter().collect() } else { Vec::new() };
    if error == 0 {
        served.extend(also.iter().copied().flatten());
        served.sort_by_key(|api| api.key);
    }
    out.i16(error);
    out.count(served.len());
    for api in served {
        out.i16(api.key);
        out.i16(api.min);
        out.i16(api.max);
        out.no_tags();
    }
    if version >= 1 {
        out.i32(0);
    }
    if !out.is_flexible() || error != 0 {
        return out.no_tags();
    }
    let levels = |features: &[(&str, i16, i16)]| {
        let mut tag = BytesMut::new();
        let mut list = Writer::new(&mut tag, true);
        list.count(features.len());
        for (name, low, high) in features {
            list.str(name);
            list.i16(*low);
            list.i16(*high);
            list.no_tags();
        }
        tag
    };
    let mut tags = Vec::new();
    if version >= FIRST_VERSION_WITH_LEVEL_0 {
        let supported: Vec<_> = features.iter().map(|feature| (feature.name, 0, feature.max)).collect();
        tags.push((SUPPORTED_FEATURES, levels(&supported)));
    }
    tags.push((FINALIZED_FEATURES_EPOCH, BytesMut::from(&[0; 8][..])));
    let in_use = features.iter().filter(|feature| feature.level > 0);
    let finalized: Vec<_> = in_use.map(|feature| (feature.name, feature.level, feature.level)).collect();
    if !finalized.is_empty() {
        tags.push((FINALIZED_FEATURES, levels(&finalized)));
    }
    out.tags(&tags);
}

/// Writes the answer to an `ApiVersions` of a version that is not served: v0, error 35, and the served versions.
pub fn api_versions_unsupported(out: &mut Writer<'_>) {
    const UNSUPPORTED_VERSION: i16 = 35;
    out.i16(UNSUPPORTED_VERSION);
    out.i32(1);
    if let Some(api) = versions::find(versions::API_VERSIONS) {
        out.i16(api.key);
        out.i16(api.min);
        out.i16(api.max);
    }
}

/// A decoded `FindCoordinator`, v0–6. Up to v3 it names one key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FindCoordinatorBody<'a> {
    /// 0: group, 1: transaction, 2: share group.
    pub key_type: i8,
    /// The keys in request order.
    pub keys: Vec<&'a str>,
}

impl<'a> FindCoordinatorBody<'a> {
    /// Reads the body of a request of a served version.
    pub fn read(version: i16, body: &'a [u8]) -> Result<FindCoordinatorBody<'a>, WireError> {
        let mut reader = Reader::new(body, version >= 3);
        let single = if version <= 3 { Some(reader.str("key")?) } else { None };
        let key_type = if version >= 1 { reader.i8("key_type")? } else { 0 };
        let keys = match single {
            Some(key) => vec![key],
            None => read_strs(&mut reader, "coordinator_keys")?,
        };
        limit_groups(keys.len(), "coordinator_keys")?;
        reader.skip_tags()?;
        Ok(FindCoordinatorBody { key_type, keys })
    }
}

/// The coordinator of one key. With an error: node -1, host "", port -1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FoundCoordinator<'a> {
    /// The error code; 0 on success.
    pub error: i16,
    /// What to do about the error; `None` on success.
    pub message: Option<&'a str>,
    /// The node id.
    pub node_id: i32,
    /// The advertised host.
    pub host: &'a str,
    /// The advertised port.
    pub port: i32,
}

/// Writes a `FindCoordinator` answer, v0–6, with the result of `find` for each of `keys`. On success the message is
/// `NONE` in v1–3, "" in v4+.
pub fn find_coordinator<'a>(
    out: &mut Writer<'_>,
    version: i16,
    keys: &[&str],
    find: impl Fn(&str) -> FoundCoordinator<'a>,
) {
    if version >= 1 {
        out.i32(0);
    }
    if version <= 3 {
        let found = find(keys.first().copied().unwrap_or_default());
        out.i16(found.error);
        if version >= 1 {
            out.str(found.message.unwrap_or("NONE"));
        }
        place(out, found);
    } else {
        out.count(keys.len());
        for key in keys {
            let found = find(key);
            out.str(key);
            place(out, found);
            out.i16(found.error);
            out.str(found.message.unwrap_or(""));
            out.no_tags();
        }
    }
    out.no_tags();
}

fn place(out: &mut Writer<'_>, found: FoundCoordinator<'_>) {
    out.i32(found.node_id);
    out.str(found.host);
    out.i32(found.port);
}
