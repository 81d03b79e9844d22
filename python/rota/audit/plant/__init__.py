"""Faults planted into copies of logs, to see whether an audit notices: `rota plant SRC DST`."""
