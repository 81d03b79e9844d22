"""`rota top`: the groups of a running server in a terminal."""
