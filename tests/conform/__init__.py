"""The conformance kit: what it finds, what it survives, and the systems that are recorded with it."""
