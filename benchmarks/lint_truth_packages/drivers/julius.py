"""Filters and resampling of audio."""

from __future__ import annotations

import julius
import torch

from benchmarks.lint_truth_packages.programs import Call, call


def _audio() -> torch.Tensor:
    return torch.randn(2, 1, 2048)


def resample() -> Call:
    return call(julius.resample_frac, _audio(), 16000, 12000)


def resample_module_full() -> Call:
    return call(julius.ResampleFrac(4, 5), _audio(), full=True)


def resample_with_length() -> Call:
    return call(julius.ResampleFrac(5, 4), _audio(), output_length=1600)


def low_pass() -> Call:
    return call(julius.lowpass_filter, _audio(), 0.1)


def low_pass_bank_by_fft() -> Call:
    return call(julius.LowPassFilters([0.05, 0.1, 0.2], fft=True), _audio())


def high_pass() -> Call:
    return call(julius.HighPassFilter(0.1, stride=2), _audio())


def high_pass_bank() -> Call:
    return call(julius.highpass_filters, _audio(), [0.1, 0.2], fft=False)


def band_pass() -> Call:
    return call(julius.bandpass_filter, _audio(), 0.05, 0.2)


def split_bands_mel() -> Call:
    return call(julius.SplitBands(16000, n_bands=4), _audio())


def split_bands_by_cutoff() -> Call:
    return call(julius.split_bands, _audio(), 16000, cutoffs=[500.0, 2000.0])


def fft_convolution() -> Call:
    return call(julius.fft_conv1d, torch.randn(2, 3, 1024), torch.randn(4, 3, 65), stride=2)


def fft_convolution_module() -> Call:
    return call(julius.FFTConv1d(3, 4, 65, padding=8), torch.randn(2, 3, 1024))


def core_helpers() -> Call:
    from julius import core

    def helpers(x: torch.Tensor) -> torch.Tensor:
        frames = core.unfold(x, 64, 32)
        return frames * core.sinc(torch.linspace(-3, 3, 64)) + core.mel_frequencies(64, 20, 8000)

    return call(helpers, torch.randn(2, 512))
