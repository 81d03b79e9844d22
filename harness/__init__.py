"""What tests and benchmarks share: raw connections, members over TCP, brokers, Java programs."""
