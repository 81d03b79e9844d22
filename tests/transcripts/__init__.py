"""Transcripts: readable scenarios in protocol terms, and the runner that plays them to a subject (README.md)."""
