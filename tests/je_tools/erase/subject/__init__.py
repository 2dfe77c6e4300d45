"""Tests of `je_tools.erase.subject`."""
