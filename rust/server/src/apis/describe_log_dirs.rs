//! `DescribeLogDirs`: the data directory, or the memory, with the bytes of each partition that this node leads.

use bytes::Bytes;
use kafka_protocol::messages::DescribeLogDirsRequest;
use rota_core::error::ErrorCode;
use rota_security::acl::Operation;
use rota_wire::{Writer, decode_body};

use super::context::{Context, Outcome};

/// The last version that the `kafka-protocol` crate knows. Later requests are the same.
const DECODED_MAX: i16 = 4;
/// The first versions whose answers have an error, the bytes of the volume, and whether a directory takes no partitions.
const ERROR_SINCE: i16 = 3;
const VOLUME_SINCE: i16 = 4;
const CORDONED_SINCE: i16 = 5;
/// Bytes of a volume that are not known.
const NOT_KNOWN: i64 = -1;
const THROTTLE_TIME_MS: i32 = 0;
/// A leader has no lag.
const OFFSET_LAG: i64 = 0;

/// A directory: its path, and topics with the bytes of their partitions.
type Dir<'t> = (String, Vec<(&'t str, Vec<(i32, u64)>)>);

/// Answers from the topics of this node. Unknown partitions, and those of other nodes, are left out.
pub fn handle(context: &mut Context<'_>) -> Outcome {
    let (version, key) = (context.version(), context.header().api.key);
    let request: DescribeLogDirsRequest =
        decode_body(key, version.min(DECODED_MAX), &Bytes::copy_from_slice(context.body()))?;
    if !context.access().allows_on_cluster(Operation::Describe) {
        return Ok(context.write(|out| answer(out, version, ErrorCode::ClusterAuthorizationFailed, None)));
    }
    let topics = context.node.topics();
    let dir = (topics.log_dir(), topics.sizes(request.topics.as_deref()));
    Ok(context.write(|out| answer(out, version, ErrorCode::None, Some(&dir))))
}

fn answer(out: &mut Writer<'_>, version: i16, error: ErrorCode, dir: Option<&Dir<'_>>) {
    out.i32(THROTTLE_TIME_MS);
    if version >= ERROR_SINCE {
        out.i16(error.code());
    }
    out.count(dir.iter().len());
    if let Some((path, topics)) = dir {
        out.i16(ErrorCode::None.code());
        out.str(path);
        out.count(topics.len());
        for (name, partitions) in topics {
            out.str(name);
            out.count(partitions.len());
            for (index, bytes) in partitions {
                out.i32(*index);
                out.i64(i64::try_from(*bytes).unwrap_or(i64::MAX));
                out.i64(OFFSET_LAG);
                out.bool(false);
                out.no_tags();
            }
            out.no_tags();
        }
        if version >= VOLUME_SINCE {
            out.i64(NOT_KNOWN);
            out.i64(NOT_KNOWN);
        }
        if version >= CORDONED_SINCE {
            out.bool(false);
        }
        out.no_tags();
    }
    out.no_tags();
}
