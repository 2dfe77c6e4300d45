"""One page from a template, a style and a script, with a policy that allows only these.

All text from logs and file systems is data. jinja2 escapes it in the markup. For the script it is
JSON without markup characters, from which the script makes text nodes. The page's policy allows
only its style and its script, by their hashes.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

SHARED = Path(__file__).parent / "templates"
"""Folder of the shared parts, and of the page of a diagnosis."""


def write_pieces(pieces: Iterable[str], out: BinaryIO) -> None:
    """Write the pieces of a page, as `render_page` yields them, in UTF-8."""
    for piece in pieces:
        out.write(piece.encode("utf-8", "backslashreplace"))


def render_page(
    folder: Path, template: str, script: str, values: Mapping[str, Any]
) -> Iterator[str]:
    """Yield a page in pieces.

    Args:
        folder: holds the page's own template and script.
        template: name of the template; the macros are beside the shared style.
        script: name of the page's script, which follows the shared one in one closure.
        values: values of the template.
    """
    templates = Environment(
        autoescape=True,
        loader=FileSystemLoader([folder, SHARED]),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    style = (SHARED / "page.css").read_text(encoding="utf-8")
    parts = [(SHARED / "log.js").read_text(encoding="utf-8")]
    parts.append((folder / script).read_text(encoding="utf-8"))
    code = '"use strict";\n(() => {\n' + "\n".join(parts) + "})();\n"
    policy = (
        f"default-src 'none'; script-src {_source(code)}; style-src {_source(style)}; "
        "base-uri 'none'; form-action 'none'"
    )
    yield from templates.get_template(template).generate(
        **values, policy=policy, style=Markup(style), script=Markup(code)
    )


def _source(text: str) -> str:
    digest = hashlib.sha256(text.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"
