"""Models that several replicas train."""
