"""Builders, fakes and a harness for tests of whatever uses the engine; part of the interface.

Lives here: short ways to describe nodes and jobs, and policies that do as a test says.
Does not belong here: anything that the product itself imports.
"""
