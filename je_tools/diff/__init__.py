"""Two environments held against each other: their records, or their files."""
