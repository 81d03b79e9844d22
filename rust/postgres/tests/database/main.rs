//! The engine on a real PostgreSQL: servers are started, killed, paused and replicated by the tests. Without PostgreSQL
//! every test passes and says that it was skipped; `TEST_POSTGRES=required` makes this a failure.

mod durability;
mod engines;
mod failures;
mod fences;
mod schema;
mod sequences;
mod server;
