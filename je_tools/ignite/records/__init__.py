"""Records of Ignite's caches as recovery would leave them: rows of pages, and the log over them."""
