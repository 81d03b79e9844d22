"""Tests of the model itself."""
