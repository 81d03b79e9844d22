//! Limits that are checked before allocation (docs/limits.md).

/// Maximum array elements of one request, including tagged fields that are kept.
pub const ELEMENTS_MAX: u32 = 1_000_000;

/// Maximum groups of one request, or keys whose coordinators it asks for. Each one costs a coordinator time while other requests wait.
pub const GROUPS_MAX: usize = 100_000;

/// Maximum bytes of a string: the limit of a 16-bit length, applied to compact strings as well.
pub const STRING_BYTES_MAX: usize = 0x7fff;

/// Maximum bytes of a client id or group instance id: `-` and a UUID are appended to make a member id, which must be a
/// legal string.
pub const ID_PREFIX_BYTES_MAX: usize = STRING_BYTES_MAX - 37;
