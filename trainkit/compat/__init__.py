"""Older interfaces, thin and built on the newer ones."""

from trainkit.compat import v1 as v1
