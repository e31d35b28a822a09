"""How compiled graphs are taken from Inductor."""
