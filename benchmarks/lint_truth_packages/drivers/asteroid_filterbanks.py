"""Filterbanks of speech separation, and their transforms."""

from __future__ import annotations

import asteroid_filterbanks as banks
import torch
from asteroid_filterbanks import transforms

from benchmarks.lint_truth_packages.programs import Call, call


def _audio() -> torch.Tensor:
    return torch.randn(2, 1, 800)


def free_encoder_and_decoder() -> Call:
    encoder, decoder = banks.make_enc_dec("free", 32, 16, stride=8)
    return call(lambda x: decoder(encoder(x)), _audio())


def stft_encoder_and_decoder() -> Call:
    encoder, decoder = banks.make_enc_dec("stft", 32, 32, stride=16)
    return call(lambda x: decoder(encoder(x), length=800), _audio())


def sinc_filters() -> Call:
    return call(banks.Encoder(banks.ParamSincFB(16, 33, stride=8)), _audio())


def analytic_filters() -> Call:
    return call(banks.Encoder(banks.AnalyticFreeFB(16, 32, stride=8), padding=4), _audio())


def pseudo_inverse() -> Call:
    encoder, decoder = banks.make_enc_dec("free", 32, 16, stride=8, who_is_pinv="dec")
    return call(lambda x: decoder(encoder(x)), _audio())


def griffin_lim() -> Call:
    encoder, decoder = banks.make_enc_dec("stft", 64, 64, stride=32)
    magnitude = transforms.mag(encoder(_audio())).detach()
    return Call(
        lambda m: banks.griffin_lim(m, encoder, istft_dec=decoder, n_iter=2),
        (magnitude,),
        grad=False,
    )


def mixture_consistency_inversion() -> Call:
    encoder, decoder = banks.make_enc_dec("stft", 64, 64, stride=32)
    sources = torch.randn(2, 2, 800)
    magnitudes = transforms.mag(encoder(sources)).detach()
    return Call(
        lambda w, m: banks.misi(w, m, encoder, istft_dec=decoder, n_iter=2),
        (sources.sum(1, keepdim=True), magnitudes),
        grad=False,
    )


def masks() -> Call:
    def apply(spectrum: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        both = transforms.apply_mag_mask(spectrum, mask)
        return transforms.from_magphase(transforms.mag(both), transforms.angle(both))

    return call(apply, torch.randn(2, 32, 20), torch.rand(2, 16, 20))


def complex_conversions() -> Call:
    def convert(spectrum: torch.Tensor) -> torch.Tensor:
        whole = transforms.to_torch_complex(spectrum)
        return transforms.from_torch_complex(whole)

    return call(convert, torch.randn(2, 32, 20))


def complex_mask() -> Call:
    return call(transforms.apply_complex_mask, torch.randn(2, 32, 20), torch.randn(2, 32, 20))


def frequency_correction() -> Call:
    return call(transforms.centerfreq_correction, torch.randn(2, 32, 20), 16, 32)
