"""What was done to each region, and why."""
