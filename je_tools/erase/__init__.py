"""Erasure of the entries that nothing needs any more, without the engine.

`plan` decides for each entry of a log whether it may be overwritten, and gives a reason for each
that stays. `run` overwrites by the engine's protocol, so that a crash at any instant leaves a log
that the engine opens. `completion` finishes an erasure that was interrupted.
"""
