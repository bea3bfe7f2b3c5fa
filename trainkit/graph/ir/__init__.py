"""The graph itself: nodes, subgraphs, passes over them, and how they print."""
