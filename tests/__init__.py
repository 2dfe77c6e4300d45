"""The tests, in folders that mirror the source trees."""
