"""Checkpoints without the engine: recovered trees, descriptors and internal database records."""
