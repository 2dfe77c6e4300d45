"""The check of B-trees against the log that holds them."""
