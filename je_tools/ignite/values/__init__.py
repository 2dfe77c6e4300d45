"""Keys and values of Ignite's caches: the types that a store knows, and values as JSON texts."""
