"""Real, unmodified Kafka clients against rota, or against Apache Kafka (README.md)."""
