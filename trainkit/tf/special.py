"""`tk.math.special`: Bessel functions and other integrals without a closed form.

Source of the formulas: NIST Digital Library of Mathematical Functions, chapters 6, 7, 10 and 25.
"""

from trainkit.ops import i0 as bessel_i0
from trainkit.ops import i0e as bessel_i0e
from trainkit.ops import i1 as bessel_i1
from trainkit.ops import i1e as bessel_i1e

__all__ = ["bessel_i0", "bessel_i0e", "bessel_i1", "bessel_i1e"]
