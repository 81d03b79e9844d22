"""Groups of any Kafka broker, seen and handled from the command line: `rota groups`."""
