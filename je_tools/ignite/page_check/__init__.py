"""Checks of page stores: every page, the structures of each file, and a verdict on the file.

`verify` is the command of this name. It scans the files (`je_tools.ignite.pages`) and walks their
trees, lists and rows (`walk`) as recovery would leave them. `judge` and `structure_judge` turn what
was read into findings.
"""
