"""The decision core: pure functions and plain data. No I/O, no clock, no log, no randomness."""
