"""Apache Ignite's persistent store, versions 2.4 to 2.18: the write-ahead log and the pages.

`types` declares the record types and their fields. `segments` reads the header of a segment,
`walk` its records, and `records` the fields of records in columns. `pages` reads the headers of
files and pages of the page store, `page_image` whole pages, as they are or as recovery leaves them,
and `rows` the rows of an image.
"""
