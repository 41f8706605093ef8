"""Annealed particles that do not depend on one another, and the check in both directions."""
