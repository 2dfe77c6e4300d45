"""Tests of `je_tools.erase.proof`."""
