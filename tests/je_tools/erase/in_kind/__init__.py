"""Tests of `je_tools.erase.in_kind`."""
