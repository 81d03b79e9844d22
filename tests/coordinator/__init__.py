"""The compiled module: `rota.Coordinator`, `rota.Wheel`, `rota.Purgatory` and their plain classes."""
