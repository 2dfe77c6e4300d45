"""Operations that commands do at the end of a log; `je_tools.append` plans, writes and checks them.

Each module has one `AppendOperation`: the reset of a group, the rollback of the stream,
and the truncation of journals.
"""
