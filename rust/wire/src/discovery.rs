//! `ApiVersions` and `FindCoordinator`: what a client asks first (docs/protocol.md §17.3, §19).

use crate::{
    read::{Reader, WireError},
    requests::read_strs,
    versions::{self, APIS},
    write::Writer,
};

/// A decoded `ApiVersions`, v0–5.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ApiVersionsBody<'a> {
    /// v3+: what software asks, and its version.
    pub software: Option<(&'a str, &'a str)>,
    /// v5: the cluster that the client means, if it knows.
    pub cluster_id: Option<&'a str>,
    /// v5: the node that the client means; -1 if it does not know.
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

    /// Whether the software says who it is: letters and digits, with `.` and `-` inside.
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

/// `ApiVersions`, v0–5, with every API that is served, or with none if `error` is not 0.
pub fn api_versions(out: &mut Writer<'_>, version: i16, error: i16) {
    let served = if error == 0 { &APIS[..] } else { &[] };
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
    out.no_tags();
}

/// The answer to an `ApiVersions` of a version that is not served: v0, error 35, and what versions there are.
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

/// A decoded `FindCoordinator`, v0–6; up to v3 it names one key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FindCoordinatorBody<'a> {
    /// 0 group, 1 transaction, 2 share group.
    pub key_type: i8,
    /// In the order of the request.
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
        reader.skip_tags()?;
        Ok(FindCoordinatorBody { key_type, keys })
    }
}

/// Where the coordinator of one key is; node -1, host "" and port -1 with an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FoundCoordinator<'a> {
    /// 0, or why there is none.
    pub error: i16,
    /// With an error, what to do; nothing on success.
    pub message: Option<&'a str>,
    /// The node.
    pub node_id: i32,
    /// Its advertised host.
    pub host: &'a str,
    /// Its advertised port.
    pub port: i32,
}

/// `FindCoordinator`, v0–6: `find` is asked about each of `keys`. On success v1–3 carry the message `NONE`, v4+ "".
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
