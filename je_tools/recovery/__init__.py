"""Recovery in memory: the state to which the engine would bring a log when it opens it.

`opening.take_snapshot` takes an environment, and returns a `Snapshot`: its databases, and their
records as the engine would read them. `plan.plan_recovery` returns the changes that the engine
would make to the log. Nothing is written.
"""
