"""docs/protocol.md as transcripts, the matrix, the table of rows, and the vocabulary."""
