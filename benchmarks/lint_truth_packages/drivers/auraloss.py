"""Losses on audio, in the time and the frequency domain."""

from __future__ import annotations

import auraloss
import torch

from benchmarks.lint_truth_packages.programs import Call, call


def _audio(channels: int = 1) -> tuple[torch.Tensor, torch.Tensor]:
    target = torch.randn(2, channels, 4096)
    return target + 0.1 * torch.randn_like(target), target


def stft() -> Call:
    return call(auraloss.freq.STFTLoss(w_lin_mag=1.0, w_phs=0.5), *_audio())


def stft_magnitude_distances() -> Call:
    loss = auraloss.freq.STFTLoss(
        fft_size=512, hop_size=128, win_length=512, w_lin_mag=1.0, mag_distance="L2", eps=1e-6
    )
    return call(loss, *_audio())


def multi_resolution_stft() -> Call:
    loss = auraloss.freq.MultiResolutionSTFTLoss(
        fft_sizes=[256, 512], hop_sizes=[64, 128], win_lengths=[256, 512]
    )
    return call(loss, *_audio())


def random_resolution_stft() -> Call:
    loss = auraloss.freq.RandomResolutionSTFTLoss(
        resolutions=2, min_fft_size=64, max_fft_size=512, randomize_rate=1
    )
    return call(loss, *_audio())


def sum_and_difference_stft() -> Call:
    loss = auraloss.freq.SumAndDifferenceSTFTLoss(
        fft_sizes=[256], hop_sizes=[64], win_lengths=[256]
    )
    return call(loss, *_audio(2))


def esr_with_dc() -> Call:
    losses = auraloss.time.ESRLoss(), auraloss.time.DCLoss()

    def both(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return losses[0](x, y) + losses[1](x, y)

    return call(both, *_audio())


def si_sdr() -> Call:
    return call(auraloss.time.SISDRLoss(), *_audio())


def sd_sdr() -> Call:
    return call(auraloss.time.SDSDRLoss(zero_mean=False, reduction="none"), *_audio())


def snr_and_log_cosh() -> Call:
    losses = auraloss.time.SNRLoss(), auraloss.time.LogCoshLoss()

    def both(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return losses[0](x, y) + losses[1](x, y)

    return call(both, *_audio())


def fir_pre_emphasis() -> Call:
    return call(auraloss.perceptual.FIRFilter("aw", fs=16000), *_audio())


def sum_and_difference() -> Call:
    return call(auraloss.perceptual.SumAndDifference(), _audio(2)[0])
