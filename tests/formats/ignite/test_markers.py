"""Names of checkpoint markers, as the engine parses them."""

from __future__ import annotations

from uuid import UUID

import pytest

from je_tools.formats.ignite.markers import MarkerKind, MarkerName, read_marker_name

ID = "0f0e0d0c-0b0a-0908-0706-050403020100"
LAST = (1 << 63) - 1


@pytest.mark.parametrize(
    ("name", "time_ms", "checkpoint"),
    [
        (f"5-{ID}-END.bin", 5, UUID(ID)),
        (f"{LAST}-{ID}-END.bin", LAST, UUID(ID)),
        (f"{LAST + 1}-{ID}-END.bin", LAST, None),
        (f"{9:099}-{ID}-END.bin", 9, UUID(ID)),
        ("5-1-2-3-4-f-END.bin", 5, UUID("00000001-0002-0003-0004-00000000000f")),
        (f"5-{UUID(ID).hex}-END.bin", 5, None),
        (f"5-{ID}0-END.bin", 5, None),
    ],
)
def test_names_are_parsed_as_by_the_engine(
    name: str, time_ms: int, checkpoint: UUID | None
) -> None:
    assert read_marker_name(name) == MarkerName(time_ms, checkpoint, MarkerKind.END)


@pytest.mark.parametrize("name", [f"\u0665-{ID}-END.bin", f"-1-{ID}-END.bin", f"5-{ID}-END.tmp"])
def test_other_names_are_those_of_no_marker(name: str) -> None:
    assert read_marker_name(name) is None
