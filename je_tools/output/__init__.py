"""Results written out: files that appear complete, encoders of rows, and views for people."""
