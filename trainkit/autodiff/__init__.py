"""Gradients: tapes, custom rules and the check of rules against differences."""
