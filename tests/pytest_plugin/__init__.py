"""The pytest plugin, in test runs of its own."""
