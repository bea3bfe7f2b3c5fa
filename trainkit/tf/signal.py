"""`tk.signal`: Fourier and cosine transforms, frames, windows and spectrograms."""

from __future__ import annotations

from trainkit.core.values.docstrings import describe_arguments as _describe_arguments
from trainkit.ops.signal.cosine_transforms import dct as dct
from trainkit.ops.signal.cosine_transforms import idct as idct
from trainkit.ops.signal.cosine_transforms import (
    linear_to_mel_weight_matrix as linear_to_mel_weight_matrix,
)
from trainkit.ops.signal.cosine_transforms import (
    mfccs_from_log_mel_spectrograms as mfccs_from_log_mel_spectrograms,
)
from trainkit.ops.signal.fourier_axes import fft as fft
from trainkit.ops.signal.fourier_axes import fft2d as fft2d
from trainkit.ops.signal.fourier_axes import fft3d as fft3d
from trainkit.ops.signal.fourier_axes import fftshift as fftshift
from trainkit.ops.signal.fourier_axes import ifft as ifft
from trainkit.ops.signal.fourier_axes import ifft2d as ifft2d
from trainkit.ops.signal.fourier_axes import ifft3d as ifft3d
from trainkit.ops.signal.fourier_axes import ifftshift as ifftshift
from trainkit.ops.signal.fourier_axes import irfft as irfft
from trainkit.ops.signal.fourier_axes import irfft2d as irfft2d
from trainkit.ops.signal.fourier_axes import irfft3d as irfft3d
from trainkit.ops.signal.fourier_axes import rfft as rfft
from trainkit.ops.signal.fourier_axes import rfft2d as rfft2d
from trainkit.ops.signal.fourier_axes import rfft3d as rfft3d
from trainkit.ops.signal.fourier_chosen_axes import fftnd as fftnd
from trainkit.ops.signal.fourier_chosen_axes import ifftnd as ifftnd
from trainkit.ops.signal.fourier_chosen_axes import irfftnd as irfftnd
from trainkit.ops.signal.fourier_chosen_axes import rfftnd as rfftnd
from trainkit.ops.signal.frames import frame as frame
from trainkit.ops.signal.frames import hamming_window as hamming_window
from trainkit.ops.signal.frames import hann_window as hann_window
from trainkit.ops.signal.frames import inverse_stft as inverse_stft
from trainkit.ops.signal.frames import inverse_stft_window_fn as inverse_stft_window_fn
from trainkit.ops.signal.frames import kaiser_window as kaiser_window
from trainkit.ops.signal.frames import overlap_and_add as overlap_and_add
from trainkit.ops.signal.frames import stft as stft
from trainkit.ops.signal.frames import vorbis_window as vorbis_window
from trainkit.ops.signal.lapped_transforms import inverse_mdct as inverse_mdct
from trainkit.ops.signal.lapped_transforms import (
    kaiser_bessel_derived_window as kaiser_bessel_derived_window,
)
from trainkit.ops.signal.lapped_transforms import mdct as mdct
from trainkit.tf.left_out import explain_unknown_names as _explain_unknown_names

_describe_arguments(globals(), "name: not kept.", package="trainkit")

_explain_unknown_names("signal", globals())
