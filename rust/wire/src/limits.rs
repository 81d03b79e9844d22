//! The limits that hold before anything is allocated (docs/limits.md).

/// Array elements, and tagged fields where they are kept, in one request.
pub const ELEMENTS_MAX: u32 = 1_000_000;

/// Groups in one request. Each is a question to a coordinator, and others wait meanwhile.
pub const GROUPS_MAX: usize = 100_000;

/// Bytes of a string that travels with a 16-bit length, which compact strings are held to as well.
pub const STRING_BYTES_MAX: usize = 0x7fff;

/// Bytes of a client id or group instance id: `-` and a UUID are put behind it to make a member id, which must
/// itself be a string.
pub const ID_PREFIX_BYTES_MAX: usize = STRING_BYTES_MAX - 37;

/// The default of `socket.request.max.bytes`.
pub const REQUEST_BYTES_MAX: usize = 104_857_600;
