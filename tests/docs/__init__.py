"""The programs on the pages of docs/ and in README.md."""
