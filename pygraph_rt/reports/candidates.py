"""What a trial compares, as reports and remembered decisions name it."""

GRAPH, NO_GRAPH = "graph", "no graph"
