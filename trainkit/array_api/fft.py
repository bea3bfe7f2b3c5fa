"""The extension `fft` of the Array API standard, over one axis or several."""

from __future__ import annotations

from trainkit.ops.math.scaled_fourier import fft as fft
from trainkit.ops.math.scaled_fourier import fftfreq as fftfreq
from trainkit.ops.math.scaled_fourier import fftn as fftn
from trainkit.ops.math.scaled_fourier import fftshift as fftshift
from trainkit.ops.math.scaled_fourier import hfft as hfft
from trainkit.ops.math.scaled_fourier import ifft as ifft
from trainkit.ops.math.scaled_fourier import ifftn as ifftn
from trainkit.ops.math.scaled_fourier import ifftshift as ifftshift
from trainkit.ops.math.scaled_fourier import ihfft as ihfft
from trainkit.ops.math.scaled_fourier import irfft as irfft
from trainkit.ops.math.scaled_fourier import irfftn as irfftn
from trainkit.ops.math.scaled_fourier import rfft as rfft
from trainkit.ops.math.scaled_fourier import rfftfreq as rfftfreq
from trainkit.ops.math.scaled_fourier import rfftn as rfftn
