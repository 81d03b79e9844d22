"""`Coordinator`, `Wheel`, `Purgatory` and the classes of `rota.protocol`."""
