"""The commands: `rota serve`, `groups`, `why`, `top`, `simulate`, `bench`, `demo`."""
