"""The client programs, one per family of Python clients."""
