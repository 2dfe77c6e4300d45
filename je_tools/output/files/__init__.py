"""Destinations of results: files and directories that appear only when complete."""
