"""Matrix products that BLAS is not asked for."""
