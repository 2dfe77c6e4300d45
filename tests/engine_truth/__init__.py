"""The tool compared with the output of the engines' own tools on the same logs."""
