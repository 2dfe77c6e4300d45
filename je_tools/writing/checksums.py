"""CRC-32C, with which undo journals protect what they hold."""

from __future__ import annotations


def crc32c(data: bytes | memoryview, value: int = 0) -> int:
    """Return the checksum of bytes that follow others with the checksum `value`."""
    # The package looks for its own version when it is loaded, which takes 20 ms.
    from crc32c import crc32c as checksum

    return checksum(data, value)
