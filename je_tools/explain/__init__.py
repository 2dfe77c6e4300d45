"""Explanations in words: topics such as findings, single entries, and messages of engines."""
