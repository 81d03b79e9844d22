"""State x request x identity: every cell of the classic protocol, as data."""
