"""The traces of a person in an environment: where they are, and what keeps each from erasure."""
