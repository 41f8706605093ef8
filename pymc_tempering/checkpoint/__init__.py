"""Runs that go on after they were killed: what is kept of them while they are sampled."""
