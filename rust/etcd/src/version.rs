//! Versions of etcd that rota works with.

use std::fmt;

/// Major, minor and patch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version(pub u32, pub u32, pub u32);

/// The oldest one whose API has what rota uses.
const OLDEST: Version = Version(3, 4, 0);
/// Members of these may differ after a crash, 3.5.3 to 3.5.5 after a crash during defragmentation.
const DIVERGING: std::ops::RangeInclusive<Version> = Version(3, 5, 0)..=Version(3, 5, 5);

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Version(major, minor, patch) = self;
        write!(f, "{major}.{minor}.{patch}")
    }
}

impl Version {
    /// Reads what a member says, such as `3.4.23` or `3.6.0-rc.1`.
    pub fn parse(text: &str) -> Result<Version, String> {
        let bad = || format!("etcd says that its version is {text:?}: expected a version such as 3.6.1");
        let release = text.split(['-', '+']).next().unwrap_or_default();
        let numbers = release.split('.').map(str::parse).collect::<Result<Vec<u32>, _>>().map_err(|_| bad())?;
        match numbers[..] {
            [major, minor, patch] => Ok(Version(major, minor, patch)),
            _ => Err(bad()),
        }
    }

    /// Refuses versions that are too old, or known to lose data.
    pub fn check(self) -> Result<Version, String> {
        if self < OLDEST {
            return Err(format!("etcd {self} is too old: use {OLDEST} or later, 3.6 at best"));
        }
        if DIVERGING.contains(&self) {
            return Err(format!("etcd {self} may lose data after a crash: use 3.5.6 or later, or 3.4"));
        }
        Ok(self)
    }
}
