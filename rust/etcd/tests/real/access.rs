//! TLS, users and versions.

use std::time::Duration;

use rota_etcd::{ALPN, Config, EtcdEngine, Failure, OpenError, User};
use rota_security::{authority::Authority, client_tls::ClientTlsFiles, pem::Source};

use crate::{
    engines::{open, run},
    etcd::Etcd,
    members::Owner,
};

fn root(password: &str) -> User {
    User { name: "root".to_owned(), password: password.to_owned() }
}

fn inline(text: &str) -> Source {
    Source::Inline("engine.tls", text.to_owned())
}

#[test]
fn connections_are_encrypted_and_both_sides_are_checked() {
    run(|| async {
        let authority = Authority::new().expect("an authority");
        let hosts = ["127.0.0.1".to_owned()];
        let member = authority.issue(&hosts, "etcd", false).expect("a certificate");
        let rota = authority.issue(&hosts, "rota", false).expect("a certificate");
        let directory = tempfile::TempDir::new().expect("a directory");
        let file = |name: &str, text: &str| {
            let path = directory.path().join(name);
            std::fs::write(&path, text).expect("a file");
            path.to_str().expect("a path").to_owned()
        };
        let flags = [
            "--cert-file".to_owned(),
            file("member.pem", &member.certificate),
            "--key-file".to_owned(),
            file("member.key", &member.key),
            "--trusted-ca-file".to_owned(),
            file("ca.pem", &authority.certificate()),
            "--client-cert-auth".to_owned(),
        ];
        let etcd = Etcd::start_with(1, flags.to_vec(), "https");
        let identity = Some((inline(&rota.certificate), inline(&rota.key)));
        let with = |ca: &Authority, identity| {
            let tls =
                ClientTlsFiles { ca: inline(&ca.certificate()), identity }.load(&[ALPN]).expect("a configuration");
            Config { tls: Some(tls), ..etcd.config() }
        };
        let mut owner = Owner::new(open(&with(&authority, identity.clone())).await).await;
        owner.append_many(3).await;
        owner.check().await;
        let other = Authority::new().expect("an authority");
        for refused in [with(&other, identity), with(&authority, None), etcd.config()] {
            let error = EtcdEngine::open(refused).await.expect_err("a refusal");
            assert!(matches!(error, OpenError::Failed(_, Failure::Connection(_))), "{error}");
        }
    });
}

#[test]
fn a_user_has_a_token_which_is_replaced() {
    run(|| async {
        let mut etcd = Etcd::start(1, &[]);
        drop(etcd.engine().await);
        etcd.control(&["user", "add", "root:secret"]);
        etcd.control(&["user", "grant-role", "root", "root"]);
        etcd.control(&["auth", "enable"]);
        let config = Config { user: Some(root("secret")), ..etcd.config() };
        let mut owner = Owner::new(open(&config).await).await;
        owner.append_many(3).await;
        // Tokens are in the member's memory.
        etcd.kill(0);
        etcd.restart(0);
        owner.append_many(3).await;
        owner.check().await;
        let wrong = Config { user: Some(root("wrong")), ..config.clone() };
        let error = EtcdEngine::open(wrong).await.expect_err("a wrong password");
        assert!(error.to_string().contains("authentication failed"), "{error}");
        assert!(!error.to_string().contains("wrong"), "{error}");
        let nobody = Config { user: None, timeout: Duration::from_secs(5), ..config };
        EtcdEngine::open(nobody).await.expect_err("no user");
    });
}
