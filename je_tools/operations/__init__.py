"""Operations that append entries to a log; `je_tools.append` plans, writes and checks them.

Each is an `AppendOperation` in a module of its own: the reset of a group, the rollback of a stream,
the rebuild of a VLSN index, the truncation of journals, the deletion of records, and the update of
the eraser's record.
"""
