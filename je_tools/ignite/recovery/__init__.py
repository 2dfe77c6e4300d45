"""Recovery of a node as its next start would do it: computed in memory, and read-only.

`physical` replays the pages of an unfinished checkpoint. `plan` adds the logical part, predicts
whether the node starts and what it loses, and names what was not checked. `page_edits` plans the
writes that finish a checkpoint, or rebuild pages and files from the log.
"""
