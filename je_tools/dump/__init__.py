"""Dump of a log: entries are selected, encoded and written, once or as an engine appends them."""
