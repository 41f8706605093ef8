"""What the demonstration shows: the galaxies, their mixtures, a picture and a table."""
