"""Hooks of MkDocs: the pages are written as GitHub reads them, which differs in three places."""

from __future__ import annotations

import html
import re
from typing import Any

_FENCED = re.compile(r"(^```.*?^```$)", re.DOTALL | re.MULTILINE)
_COMMENT = re.compile(r"^ *<!-- .*? -->$", re.MULTILINE)
_INDENT = re.compile(r"^ {2,3}(?=\S)", re.MULTILINE)
_CODE_WITH_BAR = re.compile(r"`([^`\n]*\\\|[^`\n]*)`")


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Return the text of a page for Python-Markdown.

    Text below an item of a list is indented by four spaces. A comment on a line of its own becomes
    a blank line, since it would be part of the table after it. Code in a cell loses the backslash
    before a bar.
    """
    texts = _FENCED.split(markdown)
    # Every other one is a block of code.
    texts[::2] = [_changed(text) for text in texts[::2]]
    return "".join(texts)


def _changed(text: str) -> str:
    text = _INDENT.sub("    ", _COMMENT.sub("", text))
    return _CODE_WITH_BAR.sub(_as_html, text)


def _as_html(found: re.Match[str]) -> str:
    code = html.escape(found[1].replace("\\|", "|"), quote=False)
    return f"<code>{code.replace('|', '&#124;')}</code>"
