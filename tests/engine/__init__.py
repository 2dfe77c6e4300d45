"""The real engine as a judge: finding it, running it, and the tests that ask it."""
