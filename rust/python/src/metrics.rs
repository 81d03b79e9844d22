//! A server's counts as a dictionary.

use pyo3::{prelude::*, types::PyDict};
use rota_log::BOUNDS_SECONDS;
use rota_server::Metrics;

/// Converts a server's counts to a dictionary.
pub fn counted<'py>(py: Python<'py>, metrics: &Metrics) -> PyResult<Bound<'py, PyDict>> {
    let counts = PyDict::new(py);
    counts.set_item("bounds", BOUNDS_SECONDS)?;
    counts.set_item("rebalances", &metrics.rebalances)?;
    counts.set_item("consumer_rebalances", &metrics.consumer_rebalances)?;
    counts.set_item("expiries", &metrics.expiries)?;
    counts.set_item("refusals", &metrics.refusals)?;
    counts.set_item("commits", metrics.commits)?;
    counts.set_item("failed_appends", metrics.failed_appends)?;
    let histograms = [
        ("join_phases", &metrics.join_phases),
        ("reconciliations", &metrics.reconciliations),
        ("sync_phases", &metrics.sync_phases),
        ("joins", &metrics.joins),
        ("syncs", &metrics.syncs),
        ("appends", &metrics.appends),
        ("fsyncs", &metrics.fsyncs),
    ];
    for (name, histogram) in histograms {
        counts.set_item(name, (histogram.counts, histogram.sum_seconds))?;
    }
    Ok(counts)
}
