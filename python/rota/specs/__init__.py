"""What the project knows about the protocol as data: one vocabulary for every part of it."""
