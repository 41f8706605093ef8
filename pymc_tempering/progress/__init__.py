"""What is said before and during long work."""
