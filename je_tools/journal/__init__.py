"""Journals of StarRocks and Doris front ends: the metadata log that they keep in the engine.

A front end writes each change of its metadata as a record: the key is the next journal id, the
value an op code and its payload. `read_journals` (`reading.py`) takes a snapshot and returns
the journals, their missing ids and their op codes; `find_front_end` (`front_end.py`) finds the
environment and the image from any directory of a front end.
"""
