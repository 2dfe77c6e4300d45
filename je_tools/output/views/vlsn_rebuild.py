"""The rebuild of a VLSN index as tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

from je_tools.output.views.sections import Column, Kind, Section, section_of
from je_tools.output.views.vlsn_tables import landmark_rows

if TYPE_CHECKING:
    from je_tools.vlsn.rebuild_plan import RebuildPlan


_LANDMARK = (
    Column("landmark", "landmark", Kind.TEXT),
    Column("stored_vlsn", "in the index", Kind.ID),
    Column("rebuilt_vlsn", "in the new index", Kind.ID),
    Column("recovered_vlsn", "after recovery", Kind.ID),
)
_FORECAST = (
    Column("damage", "damage", Kind.TEXT, wraps=True),
    Column("outcome", "what the engine would do with it", Kind.TEXT, wraps=True),
)


def landmark_section(plan: RebuildPlan) -> Section:
    """Return the range of the stored index, of the new one, and after recovery."""
    ranges = [
        plan.state.stored.range,
        None if plan.new is None else plan.new.range,
        None if plan.recovered is None else plan.recovered.range,
    ]
    return Section("landmarks", "Range", _LANDMARK, landmark_rows(ranges))


def forecast_section(plan: RebuildPlan) -> Section:
    """Return what the engine would do with the stored index."""
    return section_of("forecasts", "As it is", _FORECAST, plan.forecasts)
