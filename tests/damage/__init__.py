"""What happens to a log, and what must be said of it."""
