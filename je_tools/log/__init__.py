"""The log as files and entries: environments, scans, selections, names of databases."""
