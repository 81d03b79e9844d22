//! Changes of users' credentials, as clients ask for them, with Kafka's errors.

use std::collections::BTreeMap;

use super::{
    scram::{Credential, Hash, ITERATIONS_MAX, ITERATIONS_MIN},
    users::{Change, Users, is_name},
};

/// Kafka's error `RESOURCE_NOT_FOUND`.
pub const RESOURCE_NOT_FOUND: i16 = 91;
/// Kafka's error `DUPLICATE_RESOURCE`.
pub const DUPLICATE_RESOURCE: i16 = 92;
/// Kafka's error `UNACCEPTABLE_CREDENTIAL`.
pub const UNACCEPTABLE_CREDENTIAL: i16 = 93;

/// A credential that a client sets or deletes.
#[derive(Clone, Copy)]
pub struct Alteration<'a> {
    /// The user.
    pub name: &'a str,
    /// Kafka's number of the mechanism.
    pub mechanism: i8,
    /// The new credential; `None`: it is deleted.
    pub salted: Option<Salted<'a>>,
}

/// A new credential, as a client derives it from a password.
#[derive(Clone, Copy)]
pub struct Salted<'a> {
    /// The iterations of PBKDF2.
    pub iterations: i32,
    /// The salt.
    pub salt: &'a [u8],
    /// The result of PBKDF2, which is not kept.
    pub password: &'a [u8],
}

/// Why a user is not changed: Kafka's error and its message.
pub type Refused = (i16, &'static str);

const TWICE: Refused = (DUPLICATE_RESOURCE, "A user credential cannot be altered twice in the same request");
const NO_NAME: Refused = (UNACCEPTABLE_CREDENTIAL, "Username must not be empty");
const BAD_NAME: Refused = (
    UNACCEPTABLE_CREDENTIAL,
    "Username must be printable ASCII characters without blanks, not beginning with #: clients cannot log in with others",
);
const NO_MECHANISM: Refused = (super::UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism");
const NOT_THERE: Refused = (RESOURCE_NOT_FOUND, "Attempt to delete a user credential that does not exist");
const TOO_FEW: Refused = (UNACCEPTABLE_CREDENTIAL, "Too few iterations");
const TOO_MANY: Refused = (UNACCEPTABLE_CREDENTIAL, "Too many iterations");
const EMPTY: Refused = (UNACCEPTABLE_CREDENTIAL, "Salt and salted password must not be empty");

impl Hash {
    /// Returns Kafka's number of the mechanism.
    pub fn code(self) -> i8 {
        match self {
            Hash::Sha256 => 1,
            Hash::Sha512 => 2,
        }
    }

    fn of_code(code: i8) -> Option<Hash> {
        Hash::ALL.into_iter().find(|hash| hash.code() == code)
    }
}

/// Decides about each user of a request. A user whose first alteration is wrong, or who has two, is not changed; the
/// others are.
pub fn decide<'a>(
    users: &Users,
    alterations: impl Iterator<Item = Alteration<'a>>,
) -> BTreeMap<&'a str, Result<Change, Refused>> {
    let mut decided: BTreeMap<&str, Result<Change, Refused>> = BTreeMap::new();
    for alteration in alterations {
        match decided.get_mut(alteration.name) {
            None => {
                decided.insert(alteration.name, change(users, &alteration));
            }
            Some(known) if known.is_ok() => *known = Err(TWICE),
            Some(_) => {}
        }
    }
    decided
}

fn change(users: &Users, alteration: &Alteration<'_>) -> Result<Change, Refused> {
    let Alteration { name, mechanism, salted } = *alteration;
    if name.is_empty() {
        return Err(NO_NAME);
    }
    let hash = Hash::of_code(mechanism).ok_or(NO_MECHANISM)?;
    let credential = match salted {
        None if !users.mechanisms(name).any(|own| own.hash == hash) => return Err(NOT_THERE),
        None => None,
        Some(salted) => Some(credential(name, hash, salted)?),
    };
    Ok(Change { name: name.to_owned(), hash, credential })
}

fn credential(name: &str, hash: Hash, salted: Salted<'_>) -> Result<Credential, Refused> {
    let Salted { iterations, salt, password } = salted;
    let iterations = u32::try_from(iterations).unwrap_or(0);
    if iterations < ITERATIONS_MIN {
        return Err(TOO_FEW);
    }
    if iterations > ITERATIONS_MAX {
        return Err(TOO_MANY);
    }
    if !is_name(name) {
        return Err(BAD_NAME);
    }
    if salt.is_empty() || password.is_empty() {
        return Err(EMPTY);
    }
    Ok(Credential::of_salted(hash, password, salt.to_vec(), iterations))
}
