"""What a server is run with."""
