"""The command `rota serve`."""
