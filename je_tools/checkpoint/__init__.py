"""A checkpoint without the engine: recovered trees, descriptors, the engine's own records."""
