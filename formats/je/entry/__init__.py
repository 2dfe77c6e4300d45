"""Payloads of entries: bytes to typed fields or columns, and back.

`entries` takes the bytes of one entry and returns its fields by name; `columns` takes many entries
of one family and returns arrays. Both follow `je.layout`.
"""
