"""ACLs: the authorizer beside Kafka's, and what a server answers to clients that may not do something."""
