"""Losses from files of a log that do not exist."""
