"""The real engine as a judge: find it, run it, and test against it."""
