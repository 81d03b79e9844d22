"""A server with several nodes, and partitions of __consumer_offsets that go from one to another."""
