"""Salvage: records of a broken log, read without a root and without a checkpoint."""
