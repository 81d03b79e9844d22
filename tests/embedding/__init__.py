"""The embedding guide."""
