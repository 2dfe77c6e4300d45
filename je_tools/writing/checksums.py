"""CRC-32C, the checksum of undo journals."""

from __future__ import annotations


def crc32c(data: bytes | memoryview, value: int = 0) -> int:
    """Return the CRC-32C of bytes that follow others, whose checksum is `value`."""
    # The package looks for its own version when it is loaded, which takes 20 ms.
    from crc32c import crc32c as checksum

    return checksum(data, value)
