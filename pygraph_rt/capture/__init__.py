"""From two captures to a replayable plan."""
