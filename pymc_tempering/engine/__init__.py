"""Path, explorer, ensemble: tempering on a compiled density; nothing here knows of PyMC."""
