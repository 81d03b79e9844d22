"""`rota.Wheel` and `rota.Purgatory` against their plain models (docs/protocol.md §16)."""
