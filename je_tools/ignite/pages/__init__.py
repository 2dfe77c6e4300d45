"""The page store of a node: its files, their pages, and the items of the pages.

`files` lists the files of each cache, and `scan` reads all their pages. `dump` and `space` are the
commands of these names. `je_tools.ignite.page_check` says what is wrong with pages.
"""
