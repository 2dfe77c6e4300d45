"""Operations that append ordinary entries to a log, and flip bits in headers of earlier ones.

An `AppendOperation` is a command's part: its `write` appends entries to an `AppendLog`, flips bits,
and notes each change with its reason. `plan_append` runs it without a disk and returns the changes:
this is the dry run. `apply_append` runs it on a log in place, with the engine's lock held and an
undo journal; `append_to_copy` runs it on a new copy. All three refuse a log that recovery would
cut, that has damage in the part that recovery reads, or that the engine would not open.

A sketch of an operation:

    class Rename(AppendOperation):
        name = "rename"

        def write(self, log: AppendLog) -> None:
            database = log.database("_jeRepGroupDB")
            old = old_versions(log.snapshot, database)
            transaction = log.group_transaction(author)        # or log.local_transaction()
            entry = transaction.write(database.db_id, key, data, old.get(key))
            log.note(PlannedChange("update", entry.lsn, "the name changes", key=key))
            transaction.commit()
            log.flip(marks)                                    # durable before what follows
            log.entry("RollbackEnd", fields)

`write` runs twice when a log is changed: first to plan, then to write. It must do the same both
times, so times and random numbers are attributes of the operation.
"""
