//! Tables, their versions, and databases that are refused.

use rota_cluster::operating::Operated;
use rota_postgres::{
    Config, Failure, OpenError, PostgresEngine, PrepareError, Prepared, User, prepare, schema::STEPS, session::Session,
    settings::Isolation,
};
use tokio_postgres::config::TargetSessionAttrs;

use crate::{
    engines::{config, open, run},
    server::Server,
};

async fn prepared(config: &Config, steps: &[&str]) -> Result<Prepared, PrepareError> {
    let isolation = Isolation::EachStatement;
    let session = Session::open(config, &config.endpoints[0], TargetSessionAttrs::ReadWrite, isolation).await;
    prepare(session.expect("a session").client_mut(), &config.schema, steps, 7, 1).await
}

async fn refusal(config: &Config) -> String {
    PostgresEngine::open(config.clone()).await.expect_err("a refusal").to_string()
}

#[test]
fn tables_are_made_once_and_upgraded_and_later_ones_are_refused() {
    run(|| async {
        let server = Server::start(&[]);
        let config = config(&[&server]);
        let missing = PostgresEngine::open(config.clone()).await.expect_err("no tables");
        assert!(matches!(&missing, OpenError::NoCluster(_, why) if why.contains("rota cluster init")), "{missing}");
        assert_eq!(PostgresEngine::prepare(&config).await, Ok(Prepared::Made));
        assert_eq!(PostgresEngine::prepare(&config).await, Ok(Prepared::Unchanged));
        let history = PostgresEngine::open(config.clone()).await.expect("tables").image().await.expect("an image").meta;
        // As a later version of rota does.
        let later = [STEPS[0], "CREATE TABLE added (n int)"];
        assert_eq!(prepared(&config, &later).await, Ok(Prepared::Upgraded(1)));
        assert_eq!(server.sql(&format!("SELECT count(*) FROM {}.added", config.schema)), "0");
        assert_eq!(PostgresEngine::prepare(&config).await, Err(PrepareError::Newer(2)));
        let newer = refusal(&config).await;
        assert!(newer.contains("version 2, this rota knows 1"), "{newer}");
        server.sql(&format!("UPDATE {}.meta SET version = 1, format = 9", config.schema));
        let newer = refusal(&config).await;
        assert!(newer.contains("format 9"), "{newer}");
        server.sql(&format!("UPDATE {}.meta SET format = 1", config.schema));
        let kept = PostgresEngine::open(config).await.expect("tables").image().await.expect("an image").meta;
        assert_eq!(kept, history);
    });
}

#[test]
fn a_step_that_fails_changes_nothing() {
    run(|| async {
        let server = Server::start(&[]);
        let config = config(&[&server]);
        let failed = prepared(&config, &[STEPS[0], "SELECT 1 / 0"]).await;
        assert!(matches!(failed, Err(PrepareError::Failed(Failure::Database { .. }))), "{failed:?}");
        assert_eq!(server.sql("SELECT count(*) FROM pg_namespace WHERE nspname LIKE 'rota%'"), "0");
    });
}

#[test]
fn a_database_that_loses_what_it_confirmed_is_refused() {
    run(|| async {
        for setting in ["fsync=off", "full_page_writes=off"] {
            let server = Server::start(&[setting]);
            let refused = PostgresEngine::prepare(&config(&[&server])).await.expect_err("a refusal").to_string();
            let (name, _) = setting.split_once('=').expect("a setting");
            assert!(refused.contains(&format!("{name} is off")), "{refused}");
        }
    });
}

#[test]
fn a_role_that_does_not_wait_waits_for_rota() {
    run(|| async {
        let server = Server::start(&["synchronous_commit=off"]);
        let config = config(&[&server]);
        let engine = open(&config).await;
        let durability = engine.durability().expect("an answer");
        assert!(durability.warning().is_some_and(|warning| warning.contains("may lose acknowledged commits")));
        let session = Session::of_cluster(&config, &config.endpoints[0], Isolation::Snapshot).await.expect("a session");
        let told = session.ask("SHOW synchronous_commit;").await.expect("an answer");
        assert_eq!(told.last().expect("a row").get(0), Some("on"));
        assert!(engine.name().ends_with(&format!("?schema={}", config.schema)), "{}", engine.name());
    });
}

#[test]
fn a_role_that_does_not_own_the_tables_cannot_vacuum_them() {
    run(|| async {
        let server = Server::start(&[]);
        let config = config(&[&server]);
        let owner = open(&config).await;
        let schema = &config.schema;
        for statement in [
            "CREATE ROLE serves LOGIN".to_owned(),
            format!("GRANT USAGE ON SCHEMA {schema} TO serves"),
            format!("GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA {schema} TO serves"),
        ] {
            server.sql(&statement);
        }
        let user = Some(User { name: "serves".to_owned(), password: None });
        let serving = PostgresEngine::open(Config { user, ..config.clone() }).await.expect("tables");
        let mut steps = Vec::new();
        let refused = serving.mend(&mut |step: &str| steps.push(step.to_owned())).await.expect_err("it owns no table");
        assert!(refused.contains("table log is not vacuumed") && refused.contains("owner of the tables"), "{refused}");
        assert_eq!(steps, <[&str; 0]>::default());
        assert_eq!(owner.mend(&mut |_: &str| ()).await, Ok(()));
    });
}
