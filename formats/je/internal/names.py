"""Names of the engine's internal databases. Source: DbType, JE 7.5.11 to 25.3."""

INTERNAL_PREFIX = "_je"
"""Prefix of the names of the engine's own databases."""

UTILIZATION_DB = "_jeUtilization"
RESERVED_FILES_DB = "_jeReservedFilesDb"
EXPIRATION_DB = "_jeExpiration"
BEFORE_IMAGES_DB = "_jeBeforeImagesDb"
EXTINCT_SCANS_DB = "_jeExtinctScansDb"
METADATA_DB = "_jeMetadata"
VLSN_MAP_DB = "_jeVlsnMapDb"
REP_GROUP_DB = "_jeRepGroupDB"
