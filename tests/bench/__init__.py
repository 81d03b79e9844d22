"""`rota bench`: that it measures what it says, and leaves nothing behind. No test asserts a speed."""
