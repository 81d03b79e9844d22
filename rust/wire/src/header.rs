//! The header in front of every request (docs/protocol.md §17.2).

use crate::{
    read::{Reader, WireError},
    versions::{self, Api},
};

/// The header of one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestHeader<'a> {
    /// Which API.
    pub api: &'static Api,
    /// Which version of it. Served, unless `api` is `ApiVersions`.
    pub version: i16,
    /// Comes back with the answer.
    pub correlation_id: i32,
    /// A null client id is legal and reads as "".
    pub client_id: &'a str,
}

impl<'a> RequestHeader<'a> {
    /// Reads the header that `frame` begins with and returns it with the body behind it. A key or version that is
    /// not served is an error, except for `ApiVersions`, which has an answer for every version (§17.3).
    pub fn read(frame: &'a [u8]) -> Result<(RequestHeader<'a>, &'a [u8]), WireError> {
        let mut reader = Reader::new(frame, false);
        let api_key = reader.i16("request_api_key")?;
        let version = reader.i16("request_api_version")?;
        let api = versions::find(api_key).ok_or(WireError::Unsupported { api_key, version })?;
        if !api.serves(version) && api.key != versions::API_VERSIONS {
            return Err(WireError::Unsupported { api_key, version });
        }
        let correlation_id = reader.i32("correlation_id")?;
        let client_id = reader.nullable_id_prefix("client_id")?.unwrap_or("");
        let mut tags = Reader::new(reader.rest(), api.flexible(version));
        tags.skip_tags()?;
        Ok((RequestHeader { api, version, correlation_id, client_id }, tags.rest()))
    }

    /// Whether the body is in the compact layout.
    pub fn flexible(&self) -> bool {
        self.api.flexible(self.version)
    }
}
