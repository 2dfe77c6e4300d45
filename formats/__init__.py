"""Facts about bytes: on-disk structures to columns and typed entries, and back.

The modules here serve every format: arrays, columns of byte strings, rows of text, primitive
codings. They print nothing, decide nothing and start no threads.
"""
