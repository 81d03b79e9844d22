//! Server security without sockets: TLS configurations from PEM files, throw-away certificates for tests,
//! SASL, and ACLs.
//!
//! | module | contents |
//! |---|---|
//! | [`pem`] | reads certificates and keys, and says what is wrong with a file |
//! | [`tls`] | the TLS configuration of a listener |
//! | [`client_tls`] | the TLS configuration of rota's own connections |
//! | [`authority`] | a throw-away certificate authority |
//! | [`acl`] | authorization: ACLs, their filters, decisions |
//! | [`dn`] | the subject of a certificate as text |
//! | [`principal`] | the principal of a client, and the rules that map subjects |
//! | [`sasl`] | the authentication of a connection as a state machine; SCRAM; users |
//! | [`token`] | JSON web tokens, and the keys of their issuer |
//! | [`random`] | unpredictable bytes |

#![forbid(unsafe_code)]

pub mod acl;
pub mod authority;
pub mod client_tls;
pub mod dn;
pub mod pem;
pub mod principal;
pub mod random;
pub mod sasl;
pub mod tls;
pub mod token;
