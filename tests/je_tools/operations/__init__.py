"""Tests of operations on the end of a log."""
