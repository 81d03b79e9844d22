"""The Python tests, in one folder for each thing that a user can name."""
