/* Global switches that library calls read, as global_flags.py names them, in one call.
 *
 * A switch that this torch's headers do not have under the name used here is left out, and read in
 * Python.
 */
#pragma once

#include <ATen/Context.h>
#include <ATen/autocast_mode.h>
#include <ATen/core/grad_mode.h>
#include <c10/core/InferenceMode.h>

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>

namespace switches {

template <typename T> int64_t number(const T &value) { return static_cast<int64_t>(value); }

template <typename T> int64_t number(const std::optional<T> &value)
{
    return value ? number(*value) : INT64_MIN;
}

template <typename T, size_t n> int64_t number(const std::array<T, n> &values)
{
    int64_t found = 0;
    for (const T &value : values)
        found = 31 * found + number(value) + 2; /* some are -1 */
    return found;
}

/* What global_flags.py reads of it, in one number. */
inline int64_t autocast()
{
    const int64_t on = at::autocast::is_autocast_enabled(at::kCUDA) +
                       2 * at::autocast::is_autocast_enabled(at::kCPU) +
                       4 * at::autocast::is_autocast_cache_enabled();
    return 8 * number(at::autocast::get_autocast_dtype(at::kCUDA)) + on;
}

using Read = int64_t (*)();

/* A template, so that what a torch does not have is no error. */
template <typename Context> const std::unordered_map<std::string, Read> &known()
{
    static const auto made = [] {
        std::unordered_map<std::string, Read> found;
#define SWITCH(name, call)                                                                         \
    if constexpr (requires(Context &context) { context.call; })                                    \
        found[name] = +[] { return number(static_cast<Context &>(at::globalContext()).call); }
        SWITCH("_get_deterministic_algorithms", deterministicAlgorithms());
        SWITCH("_get_deterministic_algorithms_warn_only", deterministicAlgorithmsWarnOnly());
        SWITCH("_get_deterministic_fill_uninitialized_memory",
               deterministicFillUninitializedMemory());
        SWITCH("_get_cublas_allow_fp16_reduced_precision_reduction", allowFP16ReductionCuBLAS());
        SWITCH("_get_cublas_allow_bf16_reduced_precision_reduction", allowBF16ReductionCuBLAS());
        SWITCH("_get_cublas_allow_fp16_accumulation", allowFP16AccumulationCuBLAS());
        SWITCH("_get_float32_matmul_precision", float32MatmulPrecision());
        SWITCH("_get_sm_carveout_experimental", _SMCarveout_EXPERIMENTAL());
        SWITCH("_get_blas_preferred_backend", blasPreferredBackend());
        SWITCH("_get_linalg_preferred_backend", linalgPreferredBackend());
        SWITCH("_get_cudnn_enabled", userEnabledCuDNN());
        SWITCH("_get_cudnn_benchmark", benchmarkCuDNN());
        SWITCH("_get_cudnn_deterministic", deterministicCuDNN());
        SWITCH("_get_flash_sdp_enabled", userEnabledFlashSDP());
        SWITCH("_get_mem_efficient_sdp_enabled", userEnabledMemEfficientSDP());
        SWITCH("_get_math_sdp_enabled", userEnabledMathSDP());
        SWITCH("_get_cudnn_sdp_enabled", userEnabledCuDNNSDP());
        SWITCH("_get_overrideable_sdp_enabled", userEnabledOverrideableSDP());
        SWITCH("_get_fa3_sdp_enabled", userEnabledFA3SDP());
        SWITCH("_get_math_sdp_allow_fp16_bf16_reduction", allowFP16BF16ReductionMathSDP());
        SWITCH("_get_sdp_priority_order", sDPPriorityOrder());
        SWITCH("fp32_precision matmul",
               float32Precision(at::Float32Backend::CUDA, at::Float32Op::MATMUL));
        SWITCH("fp32_precision conv",
               float32Precision(at::Float32Backend::CUDA, at::Float32Op::CONV));
        SWITCH("fp32_precision rnn",
               float32Precision(at::Float32Backend::CUDA, at::Float32Op::RNN));
#undef SWITCH
        found["is_grad_enabled"] = +[] { return number(at::GradMode::is_enabled()); };
        found["is_inference_mode_enabled"] =
            +[] { return number(c10::InferenceMode::is_enabled()); };
        found["autocast"] = autocast;
        return found;
    }();
    return made;
}

} // namespace switches
