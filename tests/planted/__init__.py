"""Bugs in the core that the checkers have to find; README.md says how they are planted."""
