"""The newer consumer-group protocol (docs/consumer-protocol.md), as part of the model.

`heartbeat` has the steps of one request, `reconcile` the table that moves a member towards its target, `target` the
assignors, `removal` how members go, `records` and `load` what the log keeps.
"""
