"""`rota.Server`: its life and clock, nodes, topics, and what a test may make it do."""
