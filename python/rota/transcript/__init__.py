"""The language of transcripts: scenarios of the group protocol as text, and what plays them to a coordinator or a model
of one. The repository's tests/protocol/README.md describes the format.
"""
