"""The newer consumer-group protocol (KIP-848) over any number of members, partitions, epochs and writes."""
