"""Random bits and the product of dropout."""
