//! How a server of a cluster reaches the other ones: at which listener, and how it shows who it is.

use std::{fmt, fs, path::PathBuf};

use rota_security::{
    client_tls::ClientTlsFiles,
    pem::Source,
    sasl::{Mechanism, Sasl, scram::Hash},
    tls::{ClientAuth, TlsFiles},
};

use super::{
    listeners::{Endpoint, SecurityProtocol},
    settings::Settings,
};

/// The mechanisms by which servers authenticate, the best first.
const MECHANISMS: [Mechanism; 3] = [Mechanism::Scram(Hash::Sha512), Mechanism::Scram(Hash::Sha256), Mechanism::Plain];

/// The password of a server.
#[derive(Clone, PartialEq, Eq)]
pub enum Password {
    /// The password itself.
    Text(String),
    /// The first line of a file, which is read for each connection.
    File(PathBuf),
}

/// Without the password.
impl fmt::Debug for Password {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Password")
    }
}

impl Password {
    /// Reads the password. Errors: what to do about the file.
    pub fn read(&self) -> Result<String, String> {
        let path = match self {
            Password::Text(text) => return Ok(text.clone()),
            Password::File(path) => path,
        };
        let shown = path.display();
        let text = fs::read_to_string(path).map_err(|error| format!("--peer-password-file is `{shown}`: {error}"))?;
        match text.lines().next() {
            Some(line) if !line.is_empty() => Ok(line.to_owned()),
            _ => Err(format!("--peer-password-file is `{shown}`, which is empty: write the password into it")),
        }
    }
}

/// How this server shows the others who it is, as it was given.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PeerAccess {
    /// The CAs of the other servers' certificates; `None`: those of clients' certificates.
    pub ca: Option<Source>,
    /// This server's certificate and its key, for listeners that ask for one; `None`: those of its listeners.
    pub identity: Option<(Source, Source)>,
    /// User and password.
    pub login: Option<(String, Password)>,
}

/// User and password, and the mechanism for them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Login {
    /// The mechanism.
    pub mechanism: Mechanism,
    /// The user.
    pub user: String,
    /// The password.
    pub password: Password,
}

/// How the servers of a cluster ask each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BetweenServers {
    /// The listener, which has the same name and protocol at all servers.
    pub listener: String,
    /// The files of TLS, which are read for each connection; `None`: connections are not encrypted.
    pub tls: Option<ClientTlsFiles>,
    /// `None`: the server does not authenticate with SASL.
    pub login: Option<Login>,
}

/// Returns the listener at which the servers ask each other: that of the setting, the first one without TLS and SASL, or
/// the first one. Errors: the setting names none.
pub fn listener<'e>(endpoints: &'e [Endpoint], settings: &Settings) -> Result<&'e Endpoint, String> {
    let name = settings.inter_broker_listener_name();
    let plain = endpoints.iter().find(|endpoint| endpoint.protocol == SecurityProtocol::Plaintext);
    let found = match name {
        "" => plain.or_else(|| endpoints.first()),
        name => endpoints.iter().find(|endpoint| endpoint.name.eq_ignore_ascii_case(name)),
    };
    found.ok_or_else(|| {
        let known: Vec<&str> = endpoints.iter().map(|endpoint| endpoint.name.as_str()).collect();
        format!("`inter.broker.listener.name` is `{name}`, which is not a listener: give one of {}", known.join(", "))
    })
}

impl BetweenServers {
    /// Whether the way between the servers was asked for: then what is missing is an error of the start.
    pub fn is_asked_for(settings: &Settings, access: &PeerAccess) -> bool {
        *access != PeerAccess::default()
            || !settings.inter_broker_listener_name().is_empty()
            || !settings.inter_broker_mechanism().is_empty()
    }

    /// Decides how the servers ask each other. `own`: the files of the listeners with TLS; `sasl`: how clients
    /// authenticate. Errors: what is missing or wrong, and what to do.
    pub fn new(
        endpoints: &[Endpoint],
        settings: &Settings,
        access: &PeerAccess,
        own: Option<&TlsFiles>,
        sasl: Option<&Sasl>,
    ) -> Result<BetweenServers, String> {
        let Endpoint { name, protocol, .. } = listener(endpoints, settings)?;
        let at = format!("the servers ask each other at the listener {name} ({})", protocol.name());
        let other = "or give another listener as `inter.broker.listener.name`";
        let is_for_tls = access.ca.is_some() || access.identity.is_some();
        let tls = match (protocol.has_tls(), access.ca.as_ref().or_else(|| own?.client_ca.as_ref())) {
            (false, _) if is_for_tls => return Err(format!("{at}: leave out --peer-ca and --peer-cert, {other}")),
            (false, _) => None,
            (true, None) => return Err(format!("{at}: give --peer-ca, the CAs of their certificates, {other}")),
            (true, Some(ca)) => {
                let own = own.filter(|files| files.client_auth != ClientAuth::None);
                let own = own.map(|files| (files.chain.clone(), files.key.clone()));
                let files = ClientTlsFiles { ca: ca.clone(), identity: access.identity.clone().or(own) };
                files.load(&[]).map_err(|error| error.to_string())?;
                Some(files)
            }
        };
        let login = match (protocol.has_sasl(), &access.login) {
            (false, Some(_)) => return Err(format!("{at}: leave out --peer-user, {other}")),
            (false, None) => None,
            (true, None) => return Err(format!("{at}: give --peer-user and --peer-password-file, {other}")),
            (true, Some((user, password))) => {
                password.read()?;
                let mechanism = mechanism(settings.inter_broker_mechanism(), sasl)?;
                Some(Login { mechanism, user: user.clone(), password: password.clone() })
            }
        };
        Ok(BetweenServers { listener: name.clone(), tls, login })
    }
}

/// Returns the mechanism of the setting, or the best one that the listeners have.
fn mechanism(named: &str, sasl: Option<&Sasl>) -> Result<Mechanism, String> {
    let offered = sasl.map_or(&[][..], |sasl| &sasl.mechanisms);
    let usable = MECHANISMS.iter().filter(|mechanism| offered.contains(mechanism));
    let mut wanted = usable.clone().filter(|mechanism| named.is_empty() || mechanism.name() == named);
    wanted.next().copied().ok_or_else(|| {
        let usable: Vec<&str> = usable.map(|mechanism| mechanism.name()).collect();
        match &usable[..] {
            [] => "the servers cannot authenticate with tokens: add SCRAM-SHA-512 to --sasl".to_owned(),
            usable => format!(
                "`sasl.mechanism.inter.broker.protocol` is `{named}`: give one that --sasl has, {}",
                usable.join(" or ")
            ),
        }
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use rota_security::{
        authority::{Authority, Issued},
        sasl::users::Users,
        token::Verifier,
    };

    use super::*;
    use crate::base::listeners::{ListenerTexts, endpoints};

    const MAP: &str = "INTERNAL:SASL_SSL,CLIENTS:SSL,OPEN:PLAINTEXT";

    fn settings(pairs: &[(&str, &str)]) -> Settings {
        let mut settings = Settings::default();
        for (name, value) in pairs {
            settings.set(name, value).unwrap();
        }
        settings
    }

    fn inline(text: &str) -> Source {
        Source::Inline("--peer-ca", text.to_owned())
    }

    fn issued() -> Issued {
        Authority::new().unwrap().issue(&["localhost".to_owned()], "rota", false).unwrap()
    }

    fn own(issued: &Issued, client_auth: ClientAuth) -> TlsFiles {
        let [chain, key] = [&issued.certificate, &issued.key].map(|text| inline(text));
        TlsFiles { client_ca: Some(chain.clone()), chain, key, client_auth }
    }

    fn sasl(mechanisms: &[Mechanism]) -> Sasl {
        Sasl { mechanisms: mechanisms.to_vec(), users: Arc::new(Users::new([1; 32])), tokens: Verifier::default() }
    }

    fn login() -> (String, Password) {
        ("rota".to_owned(), Password::Text("secret".to_owned()))
    }

    fn of(
        listeners: &str,
        pairs: &[(&str, &str)],
        access: &PeerAccess,
        own: Option<&TlsFiles>,
    ) -> Result<BetweenServers, String> {
        let endpoints = endpoints(ListenerTexts { listeners, advertised: "", protocols: MAP }, 1).unwrap();
        let sasl = sasl(&[Mechanism::Plain, Mechanism::Scram(Hash::Sha256)]);
        BetweenServers::new(&endpoints, &settings(pairs), access, own, Some(&sasl))
    }

    #[test]
    fn the_listener_is_the_one_that_is_named_the_first_open_one_or_the_first() {
        let of = |listeners, pairs: &[(&str, &str)]| {
            let found = endpoints(ListenerTexts { listeners, advertised: "", protocols: MAP }, 1).unwrap();
            listener(&found, &settings(pairs)).map(|endpoint| endpoint.name.clone())
        };
        let all = "INTERNAL://h:1,CLIENTS://h:2,OPEN://h:3";
        assert_eq!(of(all, &[]).unwrap(), "OPEN");
        assert_eq!(of("CLIENTS://h:1,INTERNAL://h:2", &[]).unwrap(), "CLIENTS");
        assert_eq!(of(all, &[("inter.broker.listener.name", "internal")]).unwrap(), "INTERNAL");
        let error = of(all, &[("inter.broker.listener.name", "OTHER")]).unwrap_err();
        assert!(error.ends_with("is `OTHER`, which is not a listener: give one of INTERNAL, CLIENTS, OPEN"), "{error}");
    }

    #[test]
    fn a_listener_without_tls_and_sasl_needs_nothing_and_takes_nothing() {
        let plain = of("OPEN://h:1", &[], &PeerAccess::default(), None).unwrap();
        assert_eq!((plain.tls, plain.login), (None, None));
        let error =
            of("OPEN://h:1", &[], &PeerAccess { login: Some(login()), ..PeerAccess::default() }, None).unwrap_err();
        assert!(error.contains("leave out --peer-user"), "{error}");
        let ca = Some(inline(&issued().certificate));
        let error = of("OPEN://h:1", &[], &PeerAccess { ca, ..PeerAccess::default() }, None).unwrap_err();
        assert!(error.contains("leave out --peer-ca"), "{error}");
    }

    #[test]
    fn tls_needs_a_ca_and_a_listener_that_asks_for_certificates_gets_the_servers_own() {
        let issued = issued();
        let nothing = PeerAccess::default();
        let error = of("CLIENTS://h:1", &[], &nothing, None).unwrap_err();
        assert!(error.contains("CLIENTS (SSL): give --peer-ca"), "{error}");
        let tls = |auth| of("CLIENTS://h:1", &[], &nothing, Some(&own(&issued, auth))).unwrap().tls.unwrap();
        assert_eq!(tls(ClientAuth::None).identity, None);
        assert_eq!(tls(ClientAuth::Required).identity, Some((inline(&issued.certificate), inline(&issued.key))));
        let wrong = PeerAccess { ca: Some(Source::File("none.pem".into())), ..nothing };
        let error = of("CLIENTS://h:1", &[], &wrong, Some(&own(&issued, ClientAuth::None))).unwrap_err();
        assert!(error.contains("cannot read `none.pem`"), "{error}");
    }

    #[test]
    fn sasl_needs_a_user_and_takes_the_best_mechanism_or_the_one_that_is_named() {
        let issued = issued();
        let of = |pairs: &[(&str, &str)], login| {
            let access = PeerAccess { login, ..PeerAccess::default() };
            of("INTERNAL://h:1", pairs, &access, Some(&own(&issued, ClientAuth::None)))
        };
        let error = of(&[], None).unwrap_err();
        assert!(error.contains("INTERNAL (SASL_SSL): give --peer-user and --peer-password-file"), "{error}");
        let setting = "sasl.mechanism.inter.broker.protocol";
        let mechanism = |pairs: &[(&str, &str)]| of(pairs, Some(login())).unwrap().login.unwrap().mechanism;
        assert_eq!(mechanism(&[]), Mechanism::Scram(Hash::Sha256));
        assert_eq!(mechanism(&[(setting, "PLAIN")]), Mechanism::Plain);
        let error = of(&[(setting, "SCRAM-SHA-512")], Some(login())).unwrap_err();
        assert!(error.ends_with("is `SCRAM-SHA-512`: give one that --sasl has, SCRAM-SHA-256 or PLAIN"), "{error}");
        let tokens = sasl(&[Mechanism::OauthBearer]);
        assert!(super::mechanism("", Some(&tokens)).unwrap_err().contains("add SCRAM-SHA-512"));
    }

    #[test]
    fn a_password_is_the_first_line_of_its_file_whenever_it_is_read() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let password = Password::File(file.path().to_owned());
        assert!(password.read().unwrap_err().ends_with("which is empty: write the password into it"));
        for text in ["one\nmore", "two"] {
            fs::write(file.path(), text).unwrap();
            assert_eq!(password.read().unwrap(), text[..3]);
        }
        let missing = Password::File("none".into()).read().unwrap_err();
        assert!(missing.starts_with("--peer-password-file is `none`: "), "{missing}");
        assert_eq!(format!("{password:?}"), "Password");
    }
}
