//! URLs and versions.

use std::time::Duration;

use rota_etcd::{Config, version::Version};

#[test]
fn a_url_names_members_prefix_and_user() {
    let config = Config::parse("etcd://rota:p%40ss@h1:2379,h2,[::1]:4001/rota/a", None).expect("a URL");
    let endpoints: Vec<String> = config.endpoints.iter().map(ToString::to_string).collect();
    assert_eq!(endpoints, ["h1:2379", "h2:2379", "[::1]:4001"]);
    assert_eq!(config.prefix, "/rota/a");
    assert!(config.keep.is_some());
    assert_eq!((Config::parse("etcd://h1/r?compact=off", None).expect("a URL").keep, config.quota_bytes), (None, 0));
    assert_eq!(config.user.map(|user| (user.name, user.password)), Some(("rota".to_owned(), "p@ss".to_owned())));
    assert_eq!(Config::parse("etcd://u:p@h1/r", None).expect("a URL").name(), "etcd://h1:2379/r");
}

#[test]
fn a_url_says_the_quota_of_an_etcd_that_does_not() {
    for (url, keeps) in [
        ("etcd://h1/r?quota=8589934592", true),
        ("etcd://h1/r?compact=off&quota=8589934592", false),
        ("etcd://h1/r?quota=8589934592&compact=off", false),
    ] {
        let config = Config::parse(url, None).expect("a URL");
        assert_eq!((config.quota_bytes, config.keep.is_some()), (8 << 30, keeps), "{url}");
        assert_eq!((config.prefix.as_str(), config.name().as_str()), ("/r", "etcd://h1:2379/r"), "{url}");
    }
}

#[test]
fn a_stalled_watch_begins_anew_within_half_a_ttl() {
    let stall_ms = |ttl_ms| {
        let config = Config::parse("etcd://h1/r", None).expect("a URL");
        config.with_ttl(Duration::from_millis(ttl_ms)).stall.as_millis()
    };
    assert_eq!([500, 5_000, 6_000, 60_000].map(stall_ms), [250, 2_500, 3_000, 3_000]);
}

#[test]
fn bad_urls_are_refused_without_their_password() {
    for (url, why) in [
        ("h1:2379/rota", "no scheme"),
        ("http://h1:2379/rota", "neither etcd nor etcds"),
        ("etcd://h1:2379", "no prefix"),
        ("etcd://h1:2379/", "no prefix"),
        ("etcd:///rota", "not HOST:PORT"),
        ("etcd://h1:port/rota", "not HOST:PORT"),
        ("etcd://h1:2379,/rota", "not HOST:PORT"),
        ("etcd://rota@h1:2379/rota", "no password"),
        ("etcd://rota:%zz@h1:2379/rota", "no password"),
        ("etcd://h1:2379/rota?compact=no", "the only options are compact=off and quota=BYTES"),
        ("etcd://h1:2379/rota?", "the only options"),
        ("etcd://h1:2379/rota?quota=8GiB", "quota is no number of bytes"),
        ("etcd://h1:2379/rota?compact=off&quota=0", "quota is no number of bytes"),
        ("etcd://h1:2379/rota?quota=-1", "quota is no number of bytes"),
        ("etcds://rota:secret@h1:2379/rota", "no CA certificates"),
    ] {
        let error = Config::parse(url, None).expect_err(url).to_string();
        assert!(error.contains(why), "{error}");
        assert!(!error.contains("secret"), "{error}");
    }
}

#[test]
fn versions_that_lose_data_are_refused() {
    let check = |text: &str| Version::parse(text).and_then(Version::check);
    for good in ["3.4.0", "3.4.23", "3.5.6", "3.5.21", "3.6.0-rc.1", "3.7.3", "4.0.0"] {
        assert!(check(good).is_ok(), "{good}");
    }
    for (bad, why) in [
        ("3.3.27", "too old"),
        ("3.5.0", "may lose data"),
        ("3.5.2", "may lose data"),
        ("3.5.5", "may lose data"),
        ("3.5.5+git", "may lose data"),
        ("", "expected a version"),
        ("3.5", "expected a version"),
        ("v3.5.9", "expected a version"),
    ] {
        let error = check(bad).expect_err(bad);
        assert!(error.contains(why), "{error}");
    }
}
