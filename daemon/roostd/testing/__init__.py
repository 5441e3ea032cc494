"""Fakes and builders for tests, shipped because they are part of the interface."""
