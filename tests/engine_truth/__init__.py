"""The tool held against what the engines' own tools said of the same logs."""
