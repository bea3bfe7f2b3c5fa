"""From a call to a kernel: primitives, their facets, the eager path, who listens."""
