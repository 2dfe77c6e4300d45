"""Claims about speed and memory, measured beside the real engine's tools."""
