"""Logs as rows: entries walked from one to the next, or fetched at their LSNs.

`reader` takes a range of a file and returns headers as columns and the gaps between them; it finds
the next entry after damage. `fetch` takes LSNs. The others summarize rows.
"""
