"""HTML pages that need nothing else and load nothing: the parts that several pages share.

A page is a jinja2 template, a style and a script, all written into one file. Values are untrusted
text: the template escapes them, and the script makes text nodes of them.
"""
