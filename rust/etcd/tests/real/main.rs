//! The engine on a real etcd: members are started, killed, paused and filled by the tests. Without `etcd` on the `PATH`
//! every test passes and says that it was skipped; `TEST_ETCD=required` makes this a failure.

mod access;
mod engines;
mod etcd;
mod members;
mod sequences;
mod space;
mod views;
