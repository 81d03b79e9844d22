//! The header of every request (docs/protocol.md §17.2).

use crate::{
    read::{Reader, WireError},
    versions::{self, Api},
};

/// A decoded request header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestHeader<'a> {
    /// The API of the request.
    pub api: &'static Api,
    /// The version of the request. It is served, unless `api` is `ApiVersions`.
    pub version: i16,
    /// The id that the answer repeats.
    pub correlation_id: i32,
    /// `client.id`; a null id is legal and reads as "".
    pub client_id: &'a str,
}

impl<'a> RequestHeader<'a> {
    /// Decodes the header of `frame`, and returns it with the body. A key or version that is not served is an error,
    /// except for versions of `ApiVersions`, which answers every version (§17.3).
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

    /// Whether the body uses the compact layout.
    pub fn flexible(&self) -> bool {
        self.api.flexible(self.version)
    }
}
