"""Runs that go on with more data."""
