"""`rota why GROUP --bootstrap-server`: what any Kafka broker tells about a group (docs/why.md)."""
