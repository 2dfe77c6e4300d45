"""Berkeley DB Java Edition logs, versions 1 to 26."""
