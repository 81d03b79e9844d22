//! Server security without sockets: TLS configurations from PEM files, throw-away certificates for tests,
//! SASL, and ACLs.
//!
//! | module | contents |
//! |---|---|
//! | [`pem`] | reads certificates and keys, and says what is wrong with a file |
//! | [`tls`] | the TLS configuration of a listener |
//! | [`authority`] | a throw-away certificate authority |
//! | [`acl`] | authorization: ACLs, their filters, decisions |
//! | [`sasl`] | the authentication of a connection as a state machine; SCRAM; users |
//! | [`random`] | unpredictable bytes |

#![forbid(unsafe_code)]

pub mod acl;
pub mod authority;
pub mod pem;
pub mod random;
pub mod sasl;
pub mod tls;
