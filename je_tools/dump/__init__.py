"""Entries of a log, selected, encoded and written, once or as a running engine appends them."""
