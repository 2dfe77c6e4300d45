"""Structure of objects that Java serialized, to check that a file has a whole one.

The stream has no checksum. It describes its classes itself, so that its structure can be followed
without them. A changed value is not detected.

Source: Object Serialization Stream Protocol, Java SE 17; ObjectInputStream, OpenJDK 17.
"""

from __future__ import annotations

from msgspec import Struct

STREAM_MAGIC = b"\xac\xed\x00\x05"
"""Start of a stream: its magic number and version."""

DEPTH_MAX = 100
"""Depth of nested objects from which a stream is not followed."""

_NULL, _REFERENCE, _CLASS_DESC, _OBJECT, _STRING, _ARRAY, _CLASS, _BLOCK, _END_BLOCK = range(
    0x70, 0x79
)
_LONG_BLOCK, _LONG_STRING, _PROXY, _ENUM = 0x7A, 0x7C, 0x7D, 0x7E
_FIRST_HANDLE = 0x7E0000
_WRITE_METHOD, _SERIALIZABLE, _EXTERNALIZABLE, _BLOCK_DATA = 1, 2, 4, 8
_SIZES = {"B": 1, "C": 2, "D": 8, "F": 4, "I": 4, "J": 8, "S": 2, "Z": 1}


class _ClassFacts(Struct):
    """A class as a stream describes it.

    Attributes:
        name: name.
        flags: flags of the description.
        fields: codes of the fields.
        parent: superclass.
        depth: number of its superclasses; None before the end of the description.
    """

    name: str
    flags: int = 0
    fields: str = ""
    parent: _ClassFacts | None = None
    depth: int | None = None


class _StreamError(Exception):
    """Bytes that are no stream; the text says why."""


def java_stream_fault(data: bytes) -> str | None:
    """Return why bytes are no object that Java serialized, in words; None if they begin with one.

    Java does not read the bytes after the object.
    """
    if data[:4] != STREAM_MAGIC:
        return "no object that Java serialized"
    reader = _JavaReader(data)
    try:
        reader.content(0)
    except _StreamError as error:
        return f"no object that Java serialized: {error} at byte {reader.at:,}"
    return None


class _JavaReader:
    """Reader of one stream.

    Attributes:
        at: offset of the next byte.
    """

    def __init__(self, data: bytes) -> None:
        self.at = len(STREAM_MAGIC)
        self._data = data
        self._handles: list[_ClassFacts | None] = []

    def _take(self, size: int) -> bytes:
        found = self._data[self.at : self.at + size]
        if len(found) < size:
            raise _StreamError("it ends early")
        self.at += size
        return found

    def _number(self, size: int) -> int:
        return int.from_bytes(self._take(size), "big")

    def _text(self, size: int = 2) -> str:
        return self._take(self._number(size)).decode("utf-8", "replace")

    def content(self, depth: int) -> int:
        """Read one object, or block of bytes; return its tag."""
        if depth > DEPTH_MAX:
            raise _StreamError("it is nested too deeply")
        tag = self._number(1)
        if tag in (_NULL, _END_BLOCK):
            return tag
        if tag == _REFERENCE:
            self._referred()
        elif tag in (_STRING, _LONG_STRING):
            self._handles.append(None)
            self._take(self._number(2 if tag == _STRING else 8))
        elif tag in (_BLOCK, _LONG_BLOCK):
            self._take(self._number(1 if tag == _BLOCK else 4))
        elif tag in (_CLASS_DESC, _PROXY):
            self.at -= 1
            self._class(depth)
        elif tag == _CLASS:
            self._class(depth)
            self._handles.append(None)
        elif tag == _ENUM:
            self._class(depth)
            self._handles.append(None)
            self._string(depth)
        elif tag == _OBJECT:
            self._object(depth)
        elif tag == _ARRAY:
            self._array(depth)
        else:
            raise _StreamError(f"an unknown tag {tag:#04x}")
        return tag

    def _referred(self) -> _ClassFacts | None:
        handle = self._number(4) - _FIRST_HANDLE
        if not 0 <= handle < len(self._handles):
            raise _StreamError("a reference to no object")
        return self._handles[handle]

    def _string(self, depth: int) -> None:
        if self.content(depth + 1) not in (_STRING, _LONG_STRING, _REFERENCE):
            raise _StreamError("no string in its place")

    def _annotations(self, depth: int) -> None:
        while self.content(depth + 1) != _END_BLOCK:
            pass

    def _class(self, depth: int) -> _ClassFacts | None:
        """Read the description of a class, and return it."""
        if depth > DEPTH_MAX:
            raise _StreamError("it is nested too deeply")
        tag = self._number(1)
        if tag == _NULL:
            return None
        if tag == _REFERENCE:
            found = self._referred()
            if found is None or found.depth is None:
                raise _StreamError("a reference to no class")
            return found
        facts = _ClassFacts("")
        if tag == _PROXY:
            self._handles.append(facts)
            for _ in range(self._number(4)):
                self._text()
            facts.flags = _SERIALIZABLE
        elif tag == _CLASS_DESC:
            facts.name = self._text()
            self._take(8)
            self._handles.append(facts)
            facts.flags = self._number(1)
            facts.fields = "".join(self._field(depth) for _ in range(self._number(2)))
        else:
            raise _StreamError("no class in its place")
        self._annotations(depth)
        facts.parent = self._class(depth + 1)
        facts.depth = 0
        if facts.parent is not None:
            assert facts.parent.depth is not None
            facts.depth = facts.parent.depth + 1
        if facts.depth > DEPTH_MAX:
            raise _StreamError("it is nested too deeply")
        return facts

    def _field(self, depth: int) -> str:
        code = chr(self._number(1))
        self._text()
        if code in "[L":
            self._string(depth)
        elif code not in _SIZES:
            raise _StreamError("a field of an unknown kind")
        return code

    def _object(self, depth: int) -> None:
        facts = self._class(depth)
        self._handles.append(None)
        if facts is None:
            raise _StreamError("an object of no class")
        if facts.flags & _EXTERNALIZABLE:
            if not facts.flags & _BLOCK_DATA:
                raise _StreamError("an object of its own format")
            self._annotations(depth)
            return
        classes: list[_ClassFacts] = []
        while facts is not None:
            classes.append(facts)
            facts = facts.parent
        for each in reversed(classes):
            for code in each.fields if each.flags & _SERIALIZABLE else "":
                self._value(code, depth)
            if each.flags & _WRITE_METHOD:
                self._annotations(depth)

    def _array(self, depth: int) -> None:
        facts = self._class(depth)
        self._handles.append(None)
        if facts is None or facts.name[:1] != "[" or len(facts.name) < 2:
            raise _StreamError("an array of no class")
        count, code = self._number(4), facts.name[1]
        if code in _SIZES:
            self._take(count * _SIZES[code])
            return
        for _ in range(count):
            self.content(depth + 1)

    def _value(self, code: str, depth: int) -> None:
        if code in _SIZES:
            self._take(_SIZES[code])
        elif self.content(depth + 1) in (_BLOCK, _LONG_BLOCK, _END_BLOCK):
            raise _StreamError("no object in its place")
