"""How a fix is made: a finding's place in both syntax trees, new nodes, passes over files."""
