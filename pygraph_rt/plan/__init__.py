"""What a capture hands to a replay: frozen data, without GPU and without torch."""
