"""Kafka's own command-line tools on a rota server."""
