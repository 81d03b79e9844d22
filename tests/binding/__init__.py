"""The compiled module: its classes, its errors, and that it says what the core did."""
