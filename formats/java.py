"""Class names of serialized Java objects, read without Java.

Source: Java Object Serialization Specification 6.0, "Object Serialization Stream Protocol".
"""

from __future__ import annotations

_HEAD = b"\xac\xed\x00\x05"
_STRING, _OBJECT, _CLASS = b"t", b"sr", b"vr"


def class_name(stream: bytes) -> str | None:
    """Return the class name of a serialized object, the text of a serialized string, or None.

    Engines store a comparator as an object, or as the name of its class.
    """
    if not stream.startswith(_HEAD):
        return None
    body = stream[len(_HEAD) :]
    for kind in (_STRING, _OBJECT, _CLASS):
        if body.startswith(kind):
            at = len(kind)
            size = int.from_bytes(body[at : at + 2], "big")
            name = body[at + 2 : at + 2 + size]
            if len(body) < at + 2 + size:
                return None
            return name.decode("utf-8", "replace") or None
    return None
