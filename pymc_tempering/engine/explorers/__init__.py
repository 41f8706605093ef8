"""How one replica moves at one inverse temperature; see :mod:`.explore` for the list."""
