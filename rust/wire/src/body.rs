//! Decodes requests with the `kafka-protocol` crate, after the guard of [`crate::schema`].

use std::panic::{AssertUnwindSafe, catch_unwind};

use bytes::Bytes;
use kafka_protocol::protocol::Decodable;

use crate::{
    read::{Reader, WireError},
    schema::walk,
    schemas::schema,
    versions,
};

/// Decodes the body of a request to `api_key` in `version`. Record batches in it are slices of `body`.
///
/// The guard walks the body first, so the codec only meets counts and lengths that its bytes cover. A panic of the
/// codec closes this connection and does not stop the server.
pub fn decode_body<T: Decodable>(api_key: i16, version: i16, body: &Bytes) -> Result<T, WireError> {
    let unsupported = WireError::Unsupported { api_key, version };
    let api = versions::find(api_key).filter(|api| api.serves(version)).ok_or(unsupported)?;
    let fields = schema(api_key).ok_or(unsupported)?;
    walk(&mut Reader::new(body, api.flexible(version)), version, fields)?;
    let mut bytes = body.clone();
    match catch_unwind(AssertUnwindSafe(|| T::decode(&mut bytes, version))) {
        Ok(Ok(decoded)) => Ok(decoded),
        Ok(Err(_)) => Err(WireError::Undecodable),
        Err(_) => Err(WireError::Panicked),
    }
}
