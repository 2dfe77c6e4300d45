"""The traces of a person in an environment: where they are, and what keeps each from erasure.

`run.find_subject` takes a snapshot and needles, and returns the traces of a search of everything
below the environment, with the reason why each can or cannot be erased now.
"""
