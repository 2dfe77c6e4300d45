"""Explanations in words: entry types, fields, findings, exit codes and single entries."""
