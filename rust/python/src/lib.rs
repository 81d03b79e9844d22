//! The Python module `rota._rota`: conversions only, no logic.

mod answers;
mod arrays;
mod assign;
mod audit;
mod bench;
mod cluster;
mod config;
mod consumer_records;
mod consumer_view;
mod coordinator;
mod embedded;
mod errors;
mod explain;
mod journal;
mod log;
mod member;
mod member_messages;
mod messages;
mod metrics;
mod names;
mod operator;
mod plain;
mod projection;
mod promises;
mod purgatory;
mod records;
mod requests;
mod security;
mod server;
mod server_config;
mod server_error;
mod sim;
mod simulate;
mod simulate_journal;
mod transactions;
mod values;
mod vocabulary;

use pyo3::prelude::*;

/// The compiled half of the package `rota`.
#[pymodule]
fn _rota(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    errors::register(module)?;
    requests::register(module)?;
    records::register(module)?;
    answers::register(module)?;
    consumer_view::register(module)?;
    module.add_function(wrap_pyfunction!(consumer_records::consumer_record, module)?)?;
    explain::register(module)?;
    projection::register(module)?;
    coordinator::register(module)?;
    embedded::register(module)?;
    assign::register(module)?;
    purgatory::register(module)?;
    security::register(module)?;
    cluster::register(module)?;
    operator::register(module)?;
    server::register(module)?;
    log::register(module)?;
    member::register(module)?;
    names::register(module)?;
    simulate::register(module)?;
    simulate_journal::register(module)?;
    journal::register(module)?;
    sim::register(module)?;
    bench::register(module)?;
    audit::register(module)?;
    promises::register(module)?;
    transactions::register(module)?;
    vocabulary::register(module)?;
    Ok(())
}
