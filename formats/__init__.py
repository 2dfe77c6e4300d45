"""Facts about bytes: on-disk structures to columns and typed entries, and back."""
