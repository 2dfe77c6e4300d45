"""Damage to logs, and the findings that it must produce."""
