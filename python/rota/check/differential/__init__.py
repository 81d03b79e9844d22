"""The core and the model in lockstep."""
