"""The core and the model in lock-step."""
